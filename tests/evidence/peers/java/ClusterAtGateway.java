import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import org.apache.kafka.common.test.ClusterInstance;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.InvocationInterceptor;
import org.junit.jupiter.api.extension.ReflectiveInvocationContext;
import org.junit.platform.commons.support.ReflectionSupport;

/** Gives the tests of Kafka that run on a {@link ClusterInstance} one whose address is that of a gateway. */
public final class ClusterAtGateway implements InvocationInterceptor {
    @Override
    public <T> T interceptTestClassConstructor(Invocation<T> invocation, ReflectiveInvocationContext<java.lang.reflect.Constructor<T>> called,
            ExtensionContext context) throws Throwable {
        Object[] arguments = called.getArguments().toArray();
        if (!replaced(arguments)) {
            return invocation.proceed();
        }
        invocation.skip();
        try {
            called.getExecutable().setAccessible(true);
            return called.getExecutable().newInstance(arguments);
        } catch (InvocationTargetException failed) {
            throw failed.getCause();
        }
    }

    @Override
    public void interceptTestTemplateMethod(Invocation<Void> invocation, ReflectiveInvocationContext<Method> called,
            ExtensionContext context) throws Throwable {
        call(invocation, called);
    }

    @Override
    public void interceptBeforeEachMethod(Invocation<Void> invocation, ReflectiveInvocationContext<Method> called,
            ExtensionContext context) throws Throwable {
        call(invocation, called);
    }

    private static void call(Invocation<Void> invocation, ReflectiveInvocationContext<Method> called) throws Throwable {
        Object[] arguments = called.getArguments().toArray();
        if (!replaced(arguments)) {
            invocation.proceed();
            return;
        }
        invocation.skip();
        ReflectionSupport.invokeMethod(called.getExecutable(), called.getTarget().orElse(null), arguments);
    }

    private static boolean replaced(Object[] arguments) {
        boolean any = false;
        for (int index = 0; index < arguments.length; index++) {
            if (Gateways.areUsed() && arguments[index] instanceof ClusterInstance cluster) {
                arguments[index] = atGateway(cluster);
                any = true;
            }
        }
        return any;
    }

    /** Returns the cluster with the address of a gateway; its default methods, which make clients, use that address. */
    private static ClusterInstance atGateway(ClusterInstance cluster) {
        InvocationHandler handler = (proxy, method, arguments) -> {
            try {
                if (method.getName().equals("bootstrapServers")) {
                    return Gateways.inFrontOf((String) method.invoke(cluster, arguments));
                }
                return method.isDefault()
                    ? InvocationHandler.invokeDefault(proxy, method, arguments)
                    : method.invoke(cluster, arguments);
            } catch (InvocationTargetException failed) {
                throw failed.getCause();
            }
        };
        return (ClusterInstance) Proxy.newProxyInstance(
            ClusterInstance.class.getClassLoader(), new Class<?>[] {ClusterInstance.class}, handler);
    }
}
