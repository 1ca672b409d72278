// Compiled in the driver by the Janino compiler that every Spark carries, once per JVM.
//
// Why Java at all: Spark's session catalog keeps the plans of tables it has resolved in a cache, and
// asks that cache first, before any data source is looked for. This class stands in front of the cache
// and, for tables whose provider is ours, lets Python put in a plan of the table as it is now. So a name
// is planned natively wherever it stands: in spark.sql, in spark.table, in the body of a view.
package tidegate;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.QualifiedTableName;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

public class CatalogPlans implements InvocationHandler {
    private final SessionCatalog catalog;
    private final Object cache;
    private final Function resolver;

    // A prototype, through which Python installs all others.
    public CatalogPlans() {
        this(null, null, null);
    }

    private CatalogPlans(SessionCatalog catalog, Object cache, Function resolver) {
        this.catalog = catalog;
        this.cache = cache;
        this.resolver = resolver;
    }

    // False where this release of Spark keeps its plans elsewhere.
    public boolean install(SessionCatalog catalog, Function resolver) throws Exception {
        Field field = SessionCatalog.class.getDeclaredField("tableRelationCache");
        if (!field.getType().isInterface()) {
            return false;
        }
        field.setAccessible(true);
        Object found = field.get(catalog);
        if (!Proxy.isProxyClass(found.getClass())) {
            CatalogPlans ours = new CatalogPlans(catalog, found, resolver);
            Class[] kinds = new Class[] {field.getType()};
            field.set(catalog, Proxy.newProxyInstance(field.getType().getClassLoader(), kinds, ours));
        }
        return true;
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        if (method.getName().equals("getIfPresent") && arguments[0] instanceof QualifiedTableName) {
            refresh((QualifiedTableName) arguments[0]);
        }
        try {
            return method.invoke(cache, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    private static boolean isOurs(String provider) {
        return provider.equalsIgnoreCase("delta")
            || provider.equalsIgnoreCase("indextables")
            || provider.equalsIgnoreCase("tantivy4spark");
    }

    private void refresh(QualifiedTableName name) throws Throwable {
        if (!catalog.externalCatalog().tableExists(name.database(), name.name())) {
            return;
        }
        CatalogTable table = catalog.externalCatalog().getTable(name.database(), name.name());
        if (table.provider().isEmpty() || !isOurs((String) table.provider().get())) {
            return;
        }
        Object plan = resolver.apply(table);
        if (plan == null) {
            catalog.invalidateCachedTable(name);
        } else {
            catalog.cacheTable(name, (LogicalPlan) plan);
        }
    }
}
