import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

/** Does the jobs of a topic as a member of a share group, and prints the value of each job that it has done.
 *
 * Arguments: brokers, group, topic, the most jobs to do, seconds that it waits for the first job, seconds without a
 * further job after which it ends, and `all`, or `odd` to do only jobs at odd offsets: the others are given back. */
public class Jobs {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        int most = Integer.parseInt(arguments[3]);
        long firstMs = 1000L * Integer.parseInt(arguments[4]);
        long idleMs = 1000L * Integer.parseInt(arguments[5]);
        boolean odd = arguments[6].equals("odd");
        int done = 0;
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[2]));
            long lastMs = System.currentTimeMillis();
            while (done < most && System.currentTimeMillis() - lastMs < (done == 0 ? firstMs : idleMs)) {
                for (ConsumerRecord<String, String> job : consumer.poll(Duration.ofMillis(200))) {
                    boolean does = done < most && (!odd || job.offset() % 2 == 1);
                    consumer.acknowledge(job, does ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE);
                    if (does) {
                        done++;
                        lastMs = System.currentTimeMillis();
                        System.out.println("DONE " + job.value());
                    }
                }
                consumer.commitSync();
            }
        }
        System.out.println("END " + done);
    }
}
