"""From locations and options to stores: schemes, spellings, the environment, and what is never shown."""

from __future__ import annotations

import logging
import os
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import NameTakenError, PathOutsideTableError, StorageError, UnsupportedSchemeError
from tidegate.storage import LocalStore, MemoryStore, ObjectStore, open_store
from tidegate.storage.clients import StaticKeys
from tidegate.storage.options import AZURE, GCS, S3, check_unused, resolve

SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"
KEYS = {"access_key_id": "AKIAEXAMPLE", "secret_access_key": SECRET}


@pytest.fixture(autouse=True)
def no_settings_from_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in list(os.environ):
        if variable.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(variable)


# ---------------------------------------------------------------------------- local and memory


@pytest.mark.parametrize(
    ("location", "below"),
    [
        ("{root}/a table", "a table"),
        ("{root}/percent%20", "percent%20"),
        ("file:{root}/a%20table", "a table"),
        ("file://{root}/a%20table/", "a table"),
        ("file://localhost{root}/t", "t"),
        ("FILE://{root}/t", "t"),
        ("file://{root}/ques?tion#hash", "ques?tion#hash"),
        ("file://{root}/%C3%BC%25", "ü%"),
    ],
)
def test_a_local_location(tmp_path: Path, location: str, below: str) -> None:
    store = open_store(location.format(root=tmp_path))
    assert isinstance(store, LocalStore)
    assert store.url == str(tmp_path / below)
    assert open_store(store.url).url == store.url


def test_a_path_object_is_local_whatever_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store(Path("s3:x")).url == str(tmp_path / "s3:x")
    assert open_store("./day:1").url == str(tmp_path / "day:1")
    assert open_store("tables/day:1").url == str(tmp_path / "tables/day:1")


@pytest.mark.parametrize("url", ["file://server/share", "file:relative", "file:", "file:///a%00b", ""])
def test_a_file_url_that_leads_nowhere(url: str) -> None:
    with pytest.raises(StorageError):
        open_store(url)


@pytest.mark.parametrize(
    "location", ["", "a\0b", "\ud83d", None, 5, b"bytes", "s3://b/a\0b", f"s3://k:{SECRET}@b/\0"]
)
def test_what_is_no_location_is_refused_in_words(location: Any) -> None:
    with pytest.raises(StorageError, match="location of") as caught:
        open_store(location)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("options", [[("region", "x")], {1: "x"}, "region=x"])
def test_what_is_no_mapping_of_options_is_refused_in_words(options: Any) -> None:
    with pytest.raises(StorageError, match="a mapping of names to values"):
        open_store("s3://bucket/table", options)


def test_memory_stores_are_shared_by_name() -> None:
    one = open_store("memory://shared-by-name/tables/t")
    assert isinstance(one, MemoryStore)
    assert one.url == "memory://shared-by-name/tables/t"
    one.put("a", b"x")
    assert open_store("memory://shared-by-name/tables/t/").get("a") == b"x"
    assert open_store("memory://shared-by-name").get("tables/t/a") == b"x"
    assert list(open_store("memory://shared-by-name/tables/other").list_from("")) == []
    assert list(open_store("memory://another-name/tables/t").list_from("")) == []


# ---------------------------------------------------------------------------- schemes


@pytest.mark.parametrize("url", ["hdfs://nn/t", "dbfs:/t", "http://x/t", "ftp://x", "S4://x", "c:/windows"])
def test_an_unknown_scheme_names_those_we_serve(url: str) -> None:
    with pytest.raises(UnsupportedSchemeError) as refused:
        open_store(url)
    for scheme in ("file", "memory", "s3", "s3a", "gs", "az", "abfss"):
        assert scheme in str(refused.value)
    assert repr(url.partition(":")[0]) in str(refused.value)


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("s3://bucket/a/b", "bucket", "a/b"),
        ("s3a://bucket/a%20b/", "bucket", "a%20b"),
        ("s3n://bucket", "bucket", ""),
        ("s3://bucket/ü x=1", "bucket", "ü x=1"),
    ],
)
def test_an_s3_location(url: str, bucket: str, prefix: str) -> None:
    store = open_store(url, KEYS)
    assert isinstance(store, ObjectStore)
    assert store.url == url.rstrip("/")
    for client in (store._client, store._once):
        assert client.config["bucket"] == bucket
        assert (client.prefix or "") == prefix


@pytest.mark.parametrize("scheme", ["gs", "gcs"])
def test_a_google_location(scheme: str) -> None:
    store = open_store(f"{scheme}://bucket/t", {"skip_signature": "true"})
    assert isinstance(store, ObjectStore)
    assert store._client.config["bucket"] == "bucket"
    assert store._client.prefix == "t"
    assert store._ordered


@pytest.mark.parametrize(
    ("url", "options", "config"),
    [
        ("az://files/t", {"account_name": "acc"}, {}),
        ("adl://files/t", {"AZURE_STORAGE_ACCOUNT_NAME": "acc"}, {}),
        ("abfss://files@acc.dfs.core.windows.net/t", {}, {}),
        ("abfs://files@acc.dfs.core.windows.net/t", {}, {}),
        ("wasbs://files@acc.blob.core.windows.net/t", {}, {}),
        ("wasb://files@acc.blob.core.windows.net/t", {}, {}),
        (
            "abfss://files@acc.dfs.core.chinacloudapi.cn/t",
            {},
            {"endpoint": "https://acc.blob.core.chinacloudapi.cn"},
        ),
    ],
)
def test_an_azure_location(url: str, options: dict[str, str], config: dict[str, str]) -> None:
    store = open_store(url, {"account_key": "c2VjcmV0", **options})
    assert isinstance(store, ObjectStore)
    assert store.url == url
    made = store._client.config
    assert made["container_name"] == "files"
    assert made["account_name"] == "acc"
    assert {name: made.get(name) for name in config} == config
    assert store._client.prefix == "t"
    assert not store._ordered


def test_a_fabric_location_uses_fabrics_endpoint() -> None:
    store = open_store("abfss://ws@onelake.dfs.fabric.microsoft.com/t", {"token": SECRET})
    assert isinstance(store, ObjectStore)
    assert store._client.config["use_fabric_endpoint"] in (True, "true")


@pytest.mark.parametrize("url", ["s3:", "s3://", "gs:///x", "az://", "abfss://@acc.dfs.core.windows.net/t"])
def test_a_url_without_a_bucket(url: str) -> None:
    with pytest.raises(StorageError, match="names a bucket"):
        open_store(url, {})


@pytest.mark.parametrize(("url", "error"), [
    ("s3://bucket/a/../b", PathOutsideTableError),
    ("s3://bucket//a", PathOutsideTableError),
    ("s3://bucket/a//b", StorageError),
    ("s3://bucket/./a", StorageError),
    ("memory://m/a/../b", PathOutsideTableError),
])  # fmt: skip
def test_a_prefix_that_is_not_literal_is_refused(url: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        open_store(url, {})


@pytest.mark.parametrize(
    "url",
    [
        f"s3://AKIAEXAMPLE:{SECRET}@bucket/t",
        f"s3a://{SECRET}@bucket/t",
        f"gs://user:{SECRET}@bucket/t",
        f"abfss://files:{SECRET}@acc.dfs.core.windows.net/t",
        f"az://files/t?sv=2020&sig={SECRET}",
        f"s3://bucket/t?X-Amz-Signature={SECRET}",
        f"s3://bucket?X-Amz-Signature={SECRET}",
    ],
)
def test_a_url_that_carries_credentials_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(StorageError, match="must not carry credentials") as refused:
        open_store(url, {"account_name": "acc"} if url.startswith("a") else {})
    assert SECRET not in str(refused.value)


# ---------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ("access_key_id", "access_key_id", "x"),
        ("aws_access_key_id", "access_key_id", "x"),
        ("AWS_ACCESS_KEY_ID", "access_key_id", "x"),
        ("AWS_SECRET_ACCESS_KEY", "secret_access_key", "x"),
        ("secret_access_key", "secret_access_key", "x"),
        ("AWS_SESSION_TOKEN", "session_token", "x"),
        ("token", "session_token", "x"),
        ("endpoint", "endpoint", "https://e"),
        ("endpoint_url", "endpoint", "https://e"),
        ("endpoint-url", "endpoint", "https://e"),
        ("AWS_ENDPOINT_URL", "endpoint", "https://e"),
        ("AWS_ENDPOINT_URL_S3", "endpoint", "https://e"),
        ("AWS_REGION", "region", "eu-west-1"),
        ("AWS_DEFAULT_REGION", "region", "eu-west-1"),
        ("region", "region", "eu-west-1"),
    ],
)
def test_an_option_goes_by_its_usual_names(given: str, name: str, value: str) -> None:
    assert resolve(S3, {given: value}, "s3://b").config == {name: value}


@pytest.mark.parametrize(
    ("word", "flag"), [("true", True), ("1", True), (True, True), ("False", False), ("off", False)]
)
def test_a_flag_is_read(word: Any, flag: bool) -> None:
    assert resolve(S3, {"AWS_ALLOW_HTTP": word}, "s3://b").client == {"allow_http": flag}
    assert resolve(S3, {"skip_signature": word}, "s3://b").config == {"skip_signature": flag}


@pytest.mark.parametrize(
    ("url", "given", "near"),
    [
        ("s3://b", "acces_key_id", "access_key_id"),
        ("s3://b", "AWS_SECRET_ACESS_KEY", "aws_secret_access_key"),
        ("s3://b", "endpont_url", "endpoint_url"),
        ("s3://b", "alow_http", "allow_http"),
        ("gs://b", "service_acount", "service_account"),
        ("az://b", "azure_storage_acount_key", "azure_storage_account_key"),
        ("/local", "aws_regio", "aws_region"),
        ("file:///local", "aws_regio", "aws_region"),
        ("memory://m", "aws_regio", "aws_region"),
    ],
)
def test_a_misspelt_option_suggests_the_near_one(url: str, given: str, near: str) -> None:
    with pytest.raises(StorageError) as refused:
        open_store(url, {given: SECRET})
    assert repr(given) in str(refused.value)
    assert f"Did you mean {near!r}?" in str(refused.value)
    assert SECRET not in str(refused.value)


def test_an_option_like_no_other_is_answered_with_the_list() -> None:
    with pytest.raises(StorageError, match=r"The options are: .*access_key_id.*region"):
        open_store("s3://b", {"qqqq": "x"})


def test_an_option_of_another_family_is_refused() -> None:
    with pytest.raises(StorageError, match="no storage option 'account_key' for S3"):
        open_store("s3://b", {"account_key": "x"})


def test_a_store_without_options_takes_those_of_others(tmp_path: Path) -> None:
    every = {name: "x" for family in (S3, GCS, AZURE) for name in family.names}
    check_unused(every, "/t")
    assert open_store(tmp_path, {"AWS_REGION": "x", "account_key": "y"}).url == str(tmp_path)


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(StorageError, match="given twice") as refused:
        open_store("s3://b", {"region": "a", "AWS_REGION": SECRET})
    assert SECRET not in str(refused.value)


def test_a_flag_that_is_none_is_refused() -> None:
    with pytest.raises(StorageError, match="yes or no") as refused:
        open_store("s3://b", {"allow_http": SECRET})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "given", [{"access_key_id": "x"}, {"secret_access_key": SECRET}, {"session_token": SECRET}]
)
def test_half_of_a_key_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(StorageError, match="needs its secret") as refused:
        open_store("s3://b", given)
    assert SECRET not in str(refused.value)


def test_a_plain_http_endpoint_must_be_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match=r"plain http.*allow_http=true"):
        open_store("s3://b", {"endpoint_url": "http://localhost:1"})
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:1")
    with pytest.raises(StorageError, match="plain http"):
        open_store("s3://b")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    open_store("s3://b")
    with pytest.raises(StorageError, match="plain http"):
        open_store("s3://b", {"allow_http": "false"})


def test_a_client_that_cannot_be_made_is_a_clear_error() -> None:
    with pytest.raises(StorageError, match="could not be made") as refused:
        open_store("gs://bucket/t", {"service_account_key": SECRET})
    assert SECRET not in str(refused.value)
    assert refused.value.__context__ is None


def test_directory_buckets_are_known_to_list_in_no_order() -> None:
    store = open_store("s3://x--use1-az4--x-s3/t", {**KEYS, "s3_express": "true"})
    assert isinstance(store, ObjectStore)
    assert not store._ordered


# ---------------------------------------------------------------------------- on the wire


class Recorder(ThreadingHTTPServer):
    """A server that keeps what was put, and loses answers when told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.objects: dict[str, bytes] = {}
        self.lost = 0
        self.deaf = False
        self.lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Recorder

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.server.deaf:
            self.close_connection = True
            return None
        with self.server.lock:
            self.note()
            if self.headers.get("if-none-match") == "*" and self.path in self.server.objects:
                return self.reply(412, f"<Error><Code>PreconditionFailed</Code><Key>{SECRET}</Key></Error>")
            self.server.objects[self.path] = body
            if self.server.lost:
                self.server.lost -= 1
                return self.reply(500, "<Error><Code>InternalError</Code></Error>")
            return self.reply(200)

    def do_GET(self) -> None:
        with self.server.lock:
            self.note()
            if self.path in self.server.objects:
                self.reply(200, self.server.objects[self.path].decode())
            else:
                self.reply(404, "<Error><Code>NoSuchKey</Code></Error>")

    def note(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.command, self.path, headers))

    def reply(self, status: int, text: str = "") -> None:
        self.send_response(status)
        self.send_header("ETag", '"e"')
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    with Recorder() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def on_the_wire(recorder: Recorder, **options: str) -> ObjectStore:
    store = open_store("s3://bucket/t", {"endpoint_url": recorder.endpoint, "allow_http": "true", **options})
    assert isinstance(store, ObjectStore)
    store._sleep = lambda _: None
    return store


def test_a_conditional_put_is_sent_once_and_its_lost_answer_is_found_out(recorder: Recorder) -> None:
    # Were the client to repeat it by itself, our own success would be reported as another writer's.
    store = on_the_wire(recorder, **KEYS)
    recorder.lost = 1
    store.put_if_absent("log/0", b"ours")
    assert [(method, path) for method, path, _ in recorder.requests] == [
        ("PUT", "/bucket/t/log/0"),
        ("PUT", "/bucket/t/log/0"),
        ("GET", "/bucket/t/log/0"),
    ]
    assert all(headers["if-none-match"] == "*" for method, _, headers in recorder.requests if method == "PUT")
    with pytest.raises(NameTakenError):
        store.put_if_absent("log/0", b"ours")


def test_an_unconditional_put_is_not_conditional(recorder: Recorder) -> None:
    store = on_the_wire(recorder, **KEYS)
    store.put("a", b"x")
    store.put("a", b"y")
    assert recorder.objects == {"/bucket/t/a": b"y"}
    assert not any("if-none-match" in headers for _, _, headers in recorder.requests)


def test_options_win_over_the_environment(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in {
        "AWS_ACCESS_KEY_ID": "FROMENVIRONMENT",
        "AWS_SECRET_ACCESS_KEY": "environment",
        "AWS_SESSION_TOKEN": "environment-token",
        "AWS_REGION": "environment-1",
        "AWS_ENDPOINT_URL": "https://environment.invalid",
        "AWS_ENDPOINT_URL_S3": "https://environment.invalid",
    }.items():
        monkeypatch.setenv(variable, value)
    on_the_wire(recorder, **KEYS, region="eu-north-1").put("a", b"x")
    headers = recorder.requests[0][2]
    assert "Credential=AKIAEXAMPLE/" in headers["authorization"]
    assert "/eu-north-1/s3/" in headers["authorization"]
    # A session token of other keys would spoil ours.
    assert "x-amz-security-token" not in headers


def test_a_session_token_is_sent(recorder: Recorder) -> None:
    on_the_wire(recorder, **KEYS, session_token="the-token").put("a", b"x")
    assert recorder.requests[0][2]["x-amz-security-token"] == "the-token"


@pytest.mark.parametrize("region", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_the_environment_serves_where_options_are_silent(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, region: str
) -> None:
    for variable, value in {
        "AWS_ACCESS_KEY_ID": "FROMENVIRONMENT",
        "AWS_SECRET_ACCESS_KEY": "environment",
        "AWS_SESSION_TOKEN": "environment-token",
        region: "environment-1",
        "AWS_ENDPOINT_URL": recorder.endpoint,
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(variable, value)
    open_store("s3://bucket/t").put("a", b"x")
    headers = recorder.requests[0][2]
    assert "Credential=FROMENVIRONMENT/" in headers["authorization"]
    assert "/environment-1/s3/" in headers["authorization"]
    assert headers["x-amz-security-token"] == "environment-token"


def test_credentials_show_in_no_repr_error_or_log(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    options = {**KEYS, "session_token": f"token-{SECRET}"}
    with caplog.at_level(logging.DEBUG):
        store = on_the_wire(recorder, **options)
        store.put_if_absent("a", b"x")
        with pytest.raises(NameTakenError) as refused:
            store.put_if_absent("a", b"y")
        recorder.deaf = True
        with pytest.raises(StorageError, match="the connection broke") as failed:
            store.put_if_absent("b", b"x")
    shown = [repr(store), store.url, str(refused.value), str(failed.value), caplog.text]
    shown += [repr(value) for value in vars(store).values()]
    shown += [repr(resolve(S3, options, "s3://b")), repr(StaticKeys(*options.values()))]
    assert repr(store) == "ObjectStore('s3://bucket/t')"
    for text in shown:
        assert SECRET not in text
        assert "AKIAEXAMPLE" not in text


def test_a_store_travels_to_other_processes(recorder: Recorder, tmp_path: Path) -> None:
    store = open_store("s3://bucket/t", {"endpoint_url": recorder.endpoint, "allow_http": "true", **KEYS})
    pickle.loads(pickle.dumps(store)).put("a", b"x")
    assert recorder.objects == {"/bucket/t/a": b"x"}
    local = LocalStore(tmp_path)
    pickle.loads(pickle.dumps(local)).put("a", b"x")
    assert local.get("a") == b"x"
