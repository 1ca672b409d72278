// Compiled in the driver by the Janino compiler that every Spark carries, once per JVM.
//
// Why Java at all: Spark asks for the time once per query, and a command that runs several queries would
// see several times. What a plan asks for as the current time is replaced by one that is given.
package tidegate;

import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.CurrentTimestampLike;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.LocalTimestamp;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DateType$;
import org.apache.spark.sql.types.TimestampNTZType$;
import org.apache.spark.sql.types.TimestampType$;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

// Times as Spark keeps them: microseconds since 1970, or days.
class Moment extends AbstractPartialFunction {
    private final long micros;

    Moment(long micros) {
        this.micros = micros;
    }

    private LocalDateTime in(ZoneId zone) {
        long second = Math.floorDiv(micros, 1000000L);
        long rest = Math.floorMod(micros, 1000000L);
        return LocalDateTime.ofInstant(Instant.ofEpochSecond(second, rest * 1000L), zone);
    }

    public boolean isDefinedAt(Object node) {
        return node instanceof CurrentTimestampLike || node instanceof CurrentDate
            || node instanceof LocalTimestamp;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
        if (node instanceof CurrentTimestampLike) {
            return new Literal(Long.valueOf(micros), TimestampType$.MODULE$);
        }
        if (node instanceof CurrentDate) {
            long day = in(((CurrentDate) node).zoneId()).toLocalDate().toEpochDay();
            return new Literal(Integer.valueOf((int) day), DateType$.MODULE$);
        }
        if (node instanceof LocalTimestamp) {
            LocalDateTime local = in(((LocalTimestamp) node).zoneId());
            long value = local.toEpochSecond(ZoneOffset.UTC) * 1000000L + local.getNano() / 1000;
            return new Literal(Long.valueOf(value), TimestampNTZType$.MODULE$);
        }
        return otherwise.apply(node);
    }
}

public class CurrentTimes {
    // The plan with one time for all that asks for the current one; null where nothing does.
    public LogicalPlan at(LogicalPlan plan, String micros) {
        Object pinned = plan.transformAllExpressionsWithSubqueries(new Moment(Long.parseLong(micros)));
        return pinned == plan ? null : (LogicalPlan) pinned;
    }
}
