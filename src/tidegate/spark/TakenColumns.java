// Compiled in the driver by the Janino compiler that every Spark carries, once per JVM.
//
// Why Java at all: a column that was taken from a frame holds that frame's own attribute, and only Spark's
// expressions can be asked where in them one stands, and be given a name in its place.
package tidegate;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedExtractValue;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

// Attributes of some frames, and fields of theirs.
class Named extends AbstractPartialFunction {
    private static final String FRAME = "__dataset_id";
    private final Set frames;
    private final String qualifier;

    Named(Set frames, String qualifier) {
        this.frames = frames;
        this.qualifier = qualifier;
    }

    private boolean isTaken(Object node) {
        if (!(node instanceof AttributeReference)) {
            return false;
        }
        AttributeReference found = (AttributeReference) node;
        return found.metadata().contains(FRAME)
            && frames.contains(Long.toString(found.metadata().getLong(FRAME)));
    }

    private boolean isField(Object node) {
        if (!(node instanceof GetStructField)) {
            return false;
        }
        Expression child = ((GetStructField) node).child();
        return isTaken(child) || isField(child);
    }

    public boolean isDefinedAt(Object node) {
        return isTaken(node) || isField(node);
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
        if (isTaken(node)) {
            String name = "`" + ((AttributeReference) node).name().replace("`", "``") + "`";
            return UnresolvedAttribute.quotedString(qualifier + name);
        }
        if (isField(node)) {
            GetStructField field = (GetStructField) node;
            return new UnresolvedExtractValue(field.child(), Literal$.MODULE$.apply(field.extractFieldName()));
        }
        return otherwise.apply(node);
    }
}

public class TakenColumns {
    // The expression with names for what was taken from the frames; null where nothing was.
    public Expression named(Expression expression, String frames, String qualifier) {
        Set ids = new HashSet(Arrays.asList(frames.split(" ")));
        Object made = expression.transformDown(new Named(ids, qualifier));
        return made == expression ? null : (Expression) made;
    }
}
