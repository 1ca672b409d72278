// Compiled in the driver by the Janino compiler that every Spark carries, once per JVM.
//
// Why Java at all: Spark's FileIndex has default methods that grow with each release, which a
// Python proxy would not inherit, and one call per file or per partition across the gateway costs
// milliseconds. This class does only what must be done on that side: it hands the pushed filters to
// Python in one call and turns the answer, a few arrays, into Spark's own objects.
package tidegate;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.PrettyAttribute;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;

// Columns whose names SQL takes for something else without quotes, such as true: Spark quotes only what is
// no word at all, so its own text of the column true is the constant.
class Quoted extends scala.runtime.AbstractPartialFunction {
    private static final List WORDS = java.util.Arrays.asList(
        new Object[] {
            "true", "false", "null", "not", "case", "current_date", "current_timestamp", "exists"
        });

    public boolean isDefinedAt(Object expression) {
        if (!(expression instanceof AttributeReference)) {
            return false;
        }
        AttributeReference column = (AttributeReference) expression;
        boolean found = WORDS.contains(column.name().toLowerCase(Locale.ROOT));
        for (int i = 0; i < column.qualifier().size(); i++) {
            found = found || WORDS.contains(((String) column.qualifier().apply(i)).toLowerCase(Locale.ROOT));
        }
        return found;
    }

    public Object applyOrElse(Object expression, scala.Function1 other) {
        if (!isDefinedAt(expression)) {
            return other.apply(expression);
        }
        AttributeReference column = (AttributeReference) expression;
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < column.qualifier().size(); i++) {
            text.append(quoted((String) column.qualifier().apply(i))).append(".");
        }
        // Its text is its name, as it stands.
        return new PrettyAttribute(text.append(quoted(column.name())).toString(), column.dataType());
    }

    private static String quoted(String name) {
        return "`" + name.replace("`", "``") + "`";
    }
}

// Filters as SQL, timestamps as the running conf says.
class Texts extends scala.runtime.AbstractFunction0 {
    private final scala.collection.immutable.Seq[] filters;

    Texts(scala.collection.immutable.Seq first, scala.collection.immutable.Seq second) {
        this.filters = new scala.collection.immutable.Seq[] {first, second};
    }

    public Object apply() {
        List texts = new ArrayList();
        for (int i = 0; i < filters.length; i++) {
            for (int j = 0; j < filters[i].size(); j++) {
                texts.add(text((Expression) filters[i].apply(j)));
            }
        }
        return texts;
    }

    static String text(Expression expression) {
        return ((Expression) expression.transform(new Quoted())).sql();
    }
}

public class TableFileIndex implements FileIndex {
    private final String identity;
    private final String label;
    private final String origin;
    private final long size;
    private final StructType partitions;
    private final Function planner;

    // A prototype, through which Python makes all others: the gateway calls methods of objects it
    // holds, but cannot name a class that Janino has loaded.
    public TableFileIndex() {
        this("", "", "", 0L, null, null);
    }

    // The SQL of an expression, for reading back.
    public String text(Expression expression) {
        return Texts.text(expression);
    }

    public TableFileIndex create(
            String identity,
            String label,
            String origin,
            long size,
            StructType partitions,
            Function planner) {
        return new TableFileIndex(identity, label, origin, size, partitions, planner);
    }

    public TableFileIndex(
            String identity,
            String label,
            String origin,
            long size,
            StructType partitions,
            Function planner) {
        this.identity = identity;
        this.label = label;
        this.origin = origin;
        this.size = size;
        this.partitions = partitions;
        this.planner = planner;
    }

    public scala.collection.immutable.Seq rootPaths() {
        List one = new ArrayList();
        one.add(new Path(label));
        return seq(one);
    }

    public scala.collection.immutable.Seq listFiles(
            scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
        // Spark spells timestamps in the zone of the session, where an hour of autumn comes twice.
        SQLConf conf = (SQLConf) SQLConf.get().clone();
        conf.setConfString("spark.sql.session.timeZone", "UTC");
        Object texts = SQLConf.withExistingConf(conf, new Texts(partitionFilters, dataFilters));
        return seq(matching(directories(answer((List) texts)), partitionFilters));
    }

    // Spark does not ask filters on partition columns again after a scan, so here they are decided, by
    // Spark's own evaluation: the planner may have understood less of them.
    private List matching(List found, scala.collection.immutable.Seq filters) {
        if (filters.isEmpty() || found.isEmpty()) {
            return found;
        }
        Expression all = (Expression) filters.head();
        for (int i = 1; i < filters.size(); i++) {
            all = new And(all, (Expression) filters.apply(i));
        }
        BasePredicate predicate = bound(all);
        List kept = new ArrayList();
        for (int i = 0; i < found.size(); i++) {
            if (predicate.eval(((PartitionDirectory) found.get(i)).values())) {
                kept.add(found.get(i));
            }
        }
        return kept;
    }

    private BasePredicate bound(Expression filter) {
        Object[] attributes = new Object[partitions.length()];
        scala.collection.immutable.Seq own = DataTypeUtils.toAttributes(partitions);
        scala.collection.immutable.Seq named = filter.references().toSeq();
        for (int i = 0; i < attributes.length; i++) {
            attributes[i] = own.apply(i);
            for (int j = 0; j < named.size(); j++) {
                if (((Attribute) named.apply(j)).name().equals(((Attribute) own.apply(i)).name())) {
                    attributes[i] = named.apply(j);
                }
            }
        }
        BasePredicate out = Predicate$.MODULE$.create(filter, seq(java.util.Arrays.asList(attributes)));
        out.initialize(0);
        return out;
    }

    // The planner adds its answer to the list it is asked with. Returned, the gateway could forget it before
    // it is looked up: nothing on the other side holds it any more.
    private Object[] answer(List texts) {
        planner.apply(texts);
        return (Object[]) texts.get(texts.size() - 1);
    }

    public String[] inputFiles() {
        List found = directories(answer(new ArrayList()));
        List out = new ArrayList();
        for (int i = 0; i < found.size(); i++) {
            scala.collection.immutable.Seq files = ((PartitionDirectory) found.get(i)).files();
            for (int j = 0; j < files.size(); j++) {
                out.add(((FileStatusWithMetadata) files.apply(j)).getPath().toUri().toString());
            }
        }
        return (String[]) out.toArray(new String[0]);
    }

    public void refresh() {
    }

    public long sizeInBytes() {
        return size;
    }

    public StructType partitionSchema() {
        return partitions;
    }

    public String identity() {
        return identity;
    }

    // Which table and version the files are of, for whoever finds the scan in a plan.
    public String origin() {
        return origin;
    }

    public boolean equals(Object other) {
        return other instanceof TableFileIndex && ((TableFileIndex) other).identity.equals(identity);
    }

    public int hashCode() {
        return identity.hashCode();
    }

    public String toString() {
        return label;
    }

    // The answer: the files as bytes (directory, size, time, path each), and one row of partition
    // values per directory, null for the empty row.
    private static List directories(Object[] answer) {
        try {
            DataInputStream in = new DataInputStream(new ByteArrayInputStream((byte[]) answer[0]));
            InternalRow[] rows = (InternalRow[]) answer[1];
            int count = in.readInt();
            int directories = in.readInt();
            ArrayList[] files = new ArrayList[directories];
            for (int i = 0; i < directories; i++) {
                files[i] = new ArrayList();
            }
            scala.collection.immutable.Map none = scala.collection.immutable.Map$.MODULE$.empty();
            for (int i = 0; i < count; i++) {
                int directory = in.readInt();
                long length = in.readLong();
                long modified = in.readLong();
                byte[] name = new byte[in.readInt()];
                in.readFully(name);
                Path path = new Path(new String(name, "UTF-8"));
                FileStatus status = new FileStatus(length, false, 1, 134217728L, modified, path);
                files[directory].add(new FileStatusWithMetadata(status, none));
            }
            List out = new ArrayList();
            for (int i = 0; i < directories; i++) {
                InternalRow values = rows == null ? InternalRow.empty() : rows[i];
                out.add(new PartitionDirectory(values, seq(files[i])));
            }
            return out;
        } catch (java.io.IOException e) {
            throw new RuntimeException(e);
        }
    }

    private static scala.collection.immutable.Seq seq(List values) {
        return scala.jdk.javaapi.CollectionConverters.asScala(values).toSeq();
    }
}
