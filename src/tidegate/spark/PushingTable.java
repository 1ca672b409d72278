// Compiled in the driver by the Janino compiler that every Spark carries, once per JVM.
//
// Why Java at all: whether filters reach a Python data source is a conf of the session that plans, off by
// default, and a user's session is not ours to change. This class stands in front of one table of one
// plan and lets that table alone be asked for filters, under a conf that says yes.
package tidegate;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;

// One call of the object behind, as Scala's function without parameters.
class Call extends scala.runtime.AbstractFunction0 {
    private final Object target;
    private final Method method;
    private final Object[] arguments;

    Call(Object target, Method method, Object[] arguments) {
        this.target = target;
        this.method = method;
        this.arguments = arguments;
    }

    public Object apply() {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            Throwable cause = e.getCause();
            if (cause instanceof RuntimeException) {
                throw (RuntimeException) cause;
            }
            throw new RuntimeException(cause);
        } catch (IllegalAccessException e) {
            throw new RuntimeException(e);
        }
    }
}

// A table or its scan builder; every call goes to what stands behind it.
class Pushing implements InvocationHandler {
    final Object target;
    private final SQLConf conf;

    Pushing(Object target, SQLConf conf) {
        this.target = target;
        this.conf = conf;
    }

    static Object before(Object target, SQLConf conf) {
        List kinds = new ArrayList();
        for (Class c = target.getClass(); c != null; c = c.getSuperclass()) {
            Class[] own = c.getInterfaces();
            for (int i = 0; i < own.length; i++) {
                if (!kinds.contains(own[i])) {
                    kinds.add(own[i]);
                }
            }
        }
        Class[] all = (Class[]) kinds.toArray(new Class[0]);
        return Proxy.newProxyInstance(Table.class.getClassLoader(), all, new Pushing(target, conf));
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        String name = method.getName();
        if (name.equals("equals")) {
            Object other = arguments[0];
            boolean ours = other != null && Proxy.isProxyClass(other.getClass())
                && Proxy.getInvocationHandler(other) instanceof Pushing;
            return Boolean.valueOf(ours && ((Pushing) Proxy.getInvocationHandler(other)).target.equals(target));
        }
        Call call = new Call(target, method, arguments);
        if (name.equals("newScanBuilder")) {
            return before(call.apply(), conf);
        }
        return name.equals("pushFilters") ? SQLConf.withExistingConf(conf, call) : call.apply();
    }
}

// Puts such tables into a plan.
class Replaced extends scala.runtime.AbstractPartialFunction {
    private final SQLConf conf;

    Replaced(SQLConf conf) {
        this.conf = conf;
    }

    public boolean isDefinedAt(Object node) {
        return node instanceof DataSourceV2Relation;
    }

    // The relation's constructor has grown with the releases; copy() is called with whatever it takes.
    public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (!isDefinedAt(node)) {
            return otherwise.apply(node);
        }
        scala.Product relation = (scala.Product) node;
        Method[] methods = relation.getClass().getMethods();
        for (int i = 0; i < methods.length; i++) {
            if (methods[i].getName().equals("copy")) {
                Object[] values = new Object[methods[i].getParameterCount()];
                for (int j = 0; j < values.length; j++) {
                    Object value = relation.productElement(j);
                    values[j] = value instanceof Table ? Pushing.before(value, conf) : value;
                }
                return new Call(relation, methods[i], values).apply();
            }
        }
        throw new IllegalStateException(relation.getClass() + " has no copy()");
    }
}

public class PushingTable {
    public LogicalPlan inPlan(LogicalPlan plan, SQLConf conf) {
        return (LogicalPlan) plan.transformDown(new Replaced(conf));
    }
}
