package sockeye.conformance;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/** Runs every scenario over every way of using the transports; the last line is `N passed, N failed`. */
public final class Main {
    static final String URL = readUrl();

    public static void main(String[] arguments) {
        List<Method> scenarios = Arrays.stream(Scenarios.class.getDeclaredMethods())
                .filter(method -> method.isAnnotationPresent(Scenario.class))
                .sorted(Comparator.comparing(Method::getName))
                .toList();
        int failed = 0;
        for (Client.Way way : Client.Way.values()) {
            for (Method scenario : scenarios) {
                failed += run(way, scenario) ? 0 : 1;
            }
        }
        int total = scenarios.size() * Client.Way.values().length;
        System.out.println((total - failed) + " passed, " + failed + " failed");
        // OkHttp keeps threads alive for a minute.
        System.exit(failed == 0 && total > 0 ? 0 : 1);
    }

    private static boolean run(Client.Way way, Method scenario) {
        String name = way + " " + scenario.getAnnotation(Scenario.class).value();
        try {
            scenario.invoke(null, way);
            System.out.println("ok     " + name);
            return true;
        } catch (InvocationTargetException failure) {
            System.out.println("FAILED " + name + ": " + failure.getCause());
            return false;
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static String readUrl() {
        String url = System.getenv("CONFORMANCE_URL");
        if (url == null) {
            throw new IllegalStateException("CONFORMANCE_URL is not set: run ../run.sh, or CONFORMANCE_URL=http://127.0.0.1:3000 ./run.sh");
        }
        return url.replaceAll("/$", "");
    }
}
