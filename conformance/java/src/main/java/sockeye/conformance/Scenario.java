package sockeye.conformance;

import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;

/** Marks a scenario and says in words what must hold. */
@Retention(RetentionPolicy.RUNTIME)
@interface Scenario {
    String value();
}
