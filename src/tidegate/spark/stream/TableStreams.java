// Compiled in the driver by the Janino compiler that every Spark carries, once per JVM.
//
// Why Java at all: a micro-batch that is to be scanned natively must come from a `Source`, which
// gives Spark a DataFrame for each pair of offsets; Python's own data source API would carry every
// row through a Python worker instead. This file does only what must be done on that side: it asks
// Python for offsets and for frames, and hands both on. `@MORE@` stands for the parameters that
// newer releases have added to a constructor.
package tidegate;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.StructType;

// How far a stream has come, as JSON. Spark compares offsets by that text.
class TableOffset extends Offset {
    private final String text;

    TableOffset(String text) {
        this.text = text;
    }

    public String json() {
        return text;
    }
}

// The limits that the options of the stream say; only Python knows them.
class OwnLimits implements ReadLimit {
}

// The stream of one query over one table. Each question to Python is a list: a word, then what the
// word needs; `null` stands for "from the beginning".
class TableSource implements Source, SupportsTriggerAvailableNow {
    private final StructType schema;
    private final String label;
    private final Function python;

    TableSource(StructType schema, String label, Function python) {
        this.schema = schema;
        this.label = label;
        this.python = python;
    }

    private Object ask(String word, Object first, Object second) {
        List question = new ArrayList();
        question.add(word);
        question.add(first);
        question.add(second);
        return python.apply(question);
    }

    private static String json(org.apache.spark.sql.connector.read.streaming.Offset offset) {
        return offset == null ? null : offset.json();
    }

    public StructType schema() {
        return schema;
    }

    public scala.Option getOffset() {
        throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is to be called instead");
    }

    public ReadLimit getDefaultReadLimit() {
        return new OwnLimits();
    }

    public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(
            org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
        String all = limit instanceof ReadAllAvailable ? "all" : "limited";
        Object found = ask("latest", json(start), all);
        return found == null ? null : new TableOffset((String) found);
    }

    public void prepareForTriggerAvailableNow() {
        ask("available", null, null);
    }

    public Dataset getBatch(scala.Option start, Offset end) {
        String from = start.isDefined() ? json((Offset) start.get()) : null;
        return (Dataset) ask("batch", from, json(end));
    }

    public void commit(Offset end) {
        ask("commit", null, json(end));
    }

    public void stop() {
    }

    public String toString() {
        return label;
    }
}

// Marks the leaves of a batch as parts of a stream, which Spark insists on. Their constructors have
// grown with the releases; copy() is called with whatever it takes.
class Streaming extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
        return node instanceof LogicalRelation || node instanceof LocalRelation;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        return isDefinedAt(node) ? streaming((scala.Product) node) : otherwise.apply(node);
    }

    private static Object streaming(scala.Product leaf) {
        java.lang.reflect.Method[] methods = leaf.getClass().getMethods();
        for (int i = 0; i < methods.length; i++) {
            if (methods[i].getName().equals("copy")) {
                Object[] values = new Object[methods[i].getParameterCount()];
                for (int j = 0; j < values.length; j++) {
                    boolean flag = leaf.productElementName(j).equals("isStreaming");
                    values[j] = flag ? Boolean.TRUE : leaf.productElement(j);
                }
                try {
                    return methods[i].invoke(leaf, values);
                } catch (ReflectiveOperationException e) {
                    throw new RuntimeException(e);
                }
            }
        }
        throw new IllegalStateException(leaf.getClass() + " has no copy()");
    }
}

// What a stream looks like to Spark before its query starts. Of the class that a name like "delta"
// would lead to, Spark asks only whether it has file metadata to offer; so no class is looked up.
class TableStream extends DataSource {
    private final StructType schema;
    private final String label;
    private final Function python;

    TableStream(
            SparkSession session, scala.collection.immutable.Map options, StructType schema, String label,
            Function python) {
        super((@SESSION@) session, "delta", none(), scala.Option.empty(), none(), scala.Option.empty(),
            options, scala.Option.empty()@MORE@);
        this.schema = schema;
        this.label = label;
        this.python = python;
    }

    private static scala.collection.immutable.Seq none() {
        return scala.jdk.javaapi.CollectionConverters.asScala(new ArrayList()).toSeq();
    }

    public Class providingClass() {
        return TableStream.class;
    }

    public Object providingInstance() {
        return this;
    }

    public Source createSource(String metadataPath) {
        return new TableSource(schema, label, (Function) python.apply(metadataPath));
    }
}

// Through this one Python makes all others: the gateway calls methods of objects it holds, but cannot
// name a class that Janino has loaded.
public class TableStreams {
    public DataSource create(
            SparkSession session, scala.collection.immutable.Map options, StructType schema, String label,
            Function python) {
        return new TableStream(session, options, schema, label, python);
    }

    // The plan of a batch with its scans marked as parts of a stream.
    public LogicalPlan streaming(LogicalPlan plan) {
        return (LogicalPlan) plan.transformDown(new Streaming());
    }
}
