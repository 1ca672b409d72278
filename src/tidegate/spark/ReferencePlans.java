// Compiled in the driver by the Janino compiler that every Spark carries, once per JVM.
//
// Why Java at all: the text of a view that the catalog keeps is read by Spark's own analyser, whenever
// the view is used and by whichever way. What such a text may say and no catalog of Spark can answer, a
// path or a version of a table, is asked of Python by this rule, before Spark looks for it. A reference
// that Python leaves alone stays as it was, for Spark to answer.
package tidegate;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.analysis.AsOfTimestamp;
import org.apache.spark.sql.catalyst.analysis.AsOfVersion;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.TimeTravelSpec$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.List;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

public class ReferencePlans extends Rule {
    // Before Spark's own rules look for tables, and once more behind those that work out timestamps.
    private static final String[] PLACES = {"hintResolutionRules", "extendedResolutionRules"};
    private final Function resolver;

    // A prototype, through which Python installs all others.
    public ReferencePlans() {
        this(null);
    }

    private ReferencePlans(Function resolver) {
        this.resolver = resolver;
    }

    public void install(Analyzer analyser, Function resolver) throws Exception {
        ReferencePlans ours = new ReferencePlans(resolver);
        for (int i = 0; i < PLACES.length; i++) {
            Field field = analyser.getClass().getDeclaredField(PLACES[i]);
            field.setAccessible(true);
            List before = ((Seq) field.get(analyser)).toList();
            // Several objects of Python's may stand for one session.
            if (before.isEmpty() || !(before.head() instanceof ReferencePlans)) {
                field.set(analyser, before.prepended(ours));
            }
        }
    }

    public TreeNode apply(TreeNode plan) {
        return ((LogicalPlan) plan).resolveOperatorsUp(new Replacing());
    }

    private class Replacing extends AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof RelationTimeTravel || node instanceof UnresolvedRelation;
        }

        public Object applyOrElse(Object node, Function1 otherwise) {
            Object found = null;
            if (node instanceof RelationTimeTravel) {
                found = versioned((RelationTimeTravel) node);
            } else if (node instanceof UnresolvedRelation) {
                UnresolvedRelation relation = (UnresolvedRelation) node;
                // A name without a version is Spark's to find.
                found = isPath(relation.multipartIdentifier()) ? planned(relation, null, null) : null;
            }
            return found == null ? otherwise.apply(node) : found;
        }
    }

    private static boolean isPath(Seq name) {
        return name.size() == 2
            && "delta".equalsIgnoreCase((String) name.apply(0))
            && ((String) name.apply(1)).contains("/");
    }

    private Object versioned(RelationTimeTravel node) {
        if (!(node.relation() instanceof UnresolvedRelation)) {
            return null;
        }
        if (node.timestamp().isDefined()) {
            Expression said = (Expression) node.timestamp().get();
            if (!said.resolved() || SubqueryExpression$.MODULE$.hasSubquery(said)) {
                return null;
            }
        }
        String zone = conf().sessionLocalTimeZone();
        Option spec = TimeTravelSpec$.MODULE$.create(node.timestamp(), node.version(), zone);
        Object asked = spec.isDefined() ? spec.get() : null;
        String version = asked instanceof AsOfVersion ? ((AsOfVersion) asked).version() : null;
        Object time = asked instanceof AsOfTimestamp ? "" + ((AsOfTimestamp) asked).timestamp() : null;
        return planned((UnresolvedRelation) node.relation(), version, time);
    }

    private Object planned(UnresolvedRelation relation, Object version, Object time) {
        if (relation.isStreaming()) {
            return null;
        }
        AnalysisContext context = AnalysisContext.get();
        ArrayList asked = new ArrayList();
        asked.add(parts(relation.multipartIdentifier()));
        asked.add(parts(context.catalogAndNamespace()));
        asked.add(version);
        asked.add(time);
        // All references of one query to one table see one version.
        String key = "tidegate " + asked;
        Option known = context.relationCache().get(key);
        Object plan = known.isDefined() ? known.get() : resolver.apply(asked);
        if (plan == null) {
            return null;
        }
        context.relationCache().put(key, plan);
        return SubqueryAlias$.MODULE$.apply(relation.multipartIdentifier(), (LogicalPlan) plan);
    }

    private static ArrayList parts(Seq given) {
        ArrayList out = new ArrayList();
        for (int i = 0; i < given.size(); i++) {
            out.add(given.apply(i));
        }
        return out;
    }
}
