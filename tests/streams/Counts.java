import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Counts orders by customer, and by customer and window of ten seconds. An order is keyed by its number, and its value
 * is its customer: so it goes through a repartition topic. Each order is passed on once, too. No order is ever late.
 */
public final class Counts {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
            settings.load(file);
        }
        KafkaStreams streams = new KafkaStreams(counts(arguments[1]).build(settings), settings);
        KafkaStreams.CloseOptions leaving =
            new KafkaStreams.CloseOptions().leaveGroup(true).timeout(Duration.ofSeconds(20));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(leaving)));
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            if (now == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
    }

    private static StreamsBuilder counts(String family) {
        Produced<String, String> texts = Produced.with(Serdes.String(), Serdes.String());
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> orders =
            builder.stream(family + "-orders", Consumed.with(Serdes.String(), Serdes.String()));
        orders.to(family + "-passed", texts);
        KGroupedStream<String, String> customers = orders
            .selectKey((number, customer) -> customer)
            .repartition(Repartitioned.with(Serdes.String(), Serdes.String()).withName("customers"))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
        customers.count(Materialized.as("totals"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(family + "-totals", texts);
        customers.windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofDays(1)))
            .count(Materialized.as("windows"))
            .toStream((window, count) -> window.key() + "@" + window.window().start())
            .mapValues(count -> Long.toString(count))
            .to(family + "-windows", texts);
        return builder;
    }
}
