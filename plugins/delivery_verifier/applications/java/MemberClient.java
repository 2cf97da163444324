import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;

/**
 * The Java client of one member of an application: its consumer, and the producer of a transform. It is the child of a
 * member process, and ends with it.
 *
 * <p>The member process writes requests to stdin. Each begins with a letter (see {@code serve}); numbers are big-endian.
 * Each has one answer on stdout, but for a record to send, which has none. An answer is a letter, the length of the
 * content, and the content: done (D), an error (E), or an event of the group (V). After an event this process does what
 * requests say until it may go on (X): the callback of the member takes part in the rebalance, as with any consumer.
 *
 * <p>Nothing here knows disciplines, batches or crash points. Nothing is polled, committed or sent that was not asked
 * for. Whatever goes wrong beside the client ends this process at once, so that the member ends, too.
 */
public final class MemberClient implements ConsumerRebalanceListener {
    private static final int FAILURE = 1;
    private static final long BEGINNING = -2;
    private static final long END = -1;

    private final String topic;
    private final String output;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;
    private final DataInputStream requests;
    private final DataOutputStream answers;
    /** For each partition: the leader epoch of records from an offset on, up to the next entry. */
    private final Map<Integer, TreeMap<Long, Integer>> epochs = new HashMap<>();
    private final List<String> refused = new ArrayList<>();
    private long sent;
    private long reported;

    private MemberClient(Map<String, String> layout, Properties consumer, Properties producer, DataInputStream requests,
            DataOutputStream answers) {
        this.requests = requests;
        this.answers = answers;
        topic = layout.get("topic");
        output = layout.get("output");
        this.consumer = new KafkaConsumer<>(consumer);
        this.producer = producer.isEmpty() ? null : new KafkaProducer<>(producer);
    }

    public static void main(String[] arguments) {
        DataOutputStream answers =
                new DataOutputStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16));
        System.setOut(System.err);
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> end("a thread failed", thrown));
        try {
            DataInputStream requests = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
            Map<String, String> layout = texts(requests);
            Properties consumer = new Properties();
            consumer.putAll(texts(requests));
            Properties producer = new Properties();
            producer.putAll(texts(requests));
            MemberClient client;
            try {
                client = new MemberClient(layout, consumer, producer, requests, answers);
            } catch (RuntimeException refused) {
                write(answers, 'E', error(refused));
                return;
            }
            write(answers, 'D', new byte[0]);
            client.serve();
        } catch (EOFException ended) {
            Runtime.getRuntime().halt(0);
        } catch (Throwable thrown) {
            end("the client failed", thrown);
        }
    }

    private static Map<String, String> texts(DataInputStream requests) throws IOException {
        Map<String, String> texts = new HashMap<>();
        for (int left = requests.readInt(); left > 0; left--) {
            String name = text(requests);
            texts.put(name, text(requests));
        }
        return texts;
    }

    private static String text(DataInputStream requests) throws IOException {
        return new String(bytes(requests), StandardCharsets.UTF_8);
    }

    private static byte[] bytes(DataInputStream requests) throws IOException {
        byte[] bytes = new byte[requests.readInt()];
        requests.readFully(bytes);
        return bytes;
    }

    private static void put(DataOutputStream content, String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        content.writeInt(bytes.length);
        content.write(bytes);
    }

    /** Does what the requests say, one after the other, until one says that an event is over, or stdin ends. */
    private void serve() throws IOException {
        while (true) {
            byte kind = requests.readByte();
            if (kind == 'X') {
                return;
            }
            if (kind == 'W') {
                send(requests.readInt(), bytes(requests), text(requests), bytes(requests));
                continue;
            }
            ByteArrayOutputStream content = new ByteArrayOutputStream();
            try {
                answer(kind, new DataOutputStream(content));
            } catch (RuntimeException thrown) {
                write(answers, 'E', error(thrown));
                continue;
            }
            write(answers, 'D', content.toByteArray());
        }
    }

    private void answer(byte kind, DataOutputStream content) throws IOException {
        switch (kind) {
            case 'S' -> consumer.subscribe(List.of(topic), this);
            case 'A' -> consumer.assign(offsets().keySet());
            case 'L' -> list(content);
            case 'P' -> poll(requests.readInt(), Duration.ofMillis(requests.readInt()), content);
            case 'C' -> commit(Duration.ofMillis(requests.readInt()), withEpochs(offsets()));
            case 'N' -> consumer.commitAsync(withEpochs(offsets()), null);
            case 'K' -> offsets().forEach(this::seek);
            case 'Q' -> consumer.close();
            case 'F' -> flush(content);
            case 'I' -> producer.initTransactions();
            case 'B' -> producer.beginTransaction();
            case 'O' -> producer.sendOffsetsToTransaction(withEpochs(offsets()), consumer.groupMetadata());
            case 'M' -> producer.commitTransaction();
            case 'R' -> producer.abortTransaction();
            default -> throw new IOException("unknown request " + kind);
        }
    }

    private Map<TopicPartition, Long> offsets() throws IOException {
        Map<TopicPartition, Long> offsets = new HashMap<>();
        for (int left = requests.readInt(); left > 0; left--) {
            TopicPartition partition = new TopicPartition(topic, requests.readInt());
            offsets.put(partition, requests.readLong());
        }
        return offsets;
    }

    private void list(DataOutputStream content) throws IOException {
        List<PartitionInfo> partitions = consumer.partitionsFor(topic, Duration.ofMillis(requests.readInt()));
        content.writeInt(partitions.size());
        for (PartitionInfo each : partitions) {
            content.writeInt(each.partition());
        }
    }

    /**
     * Hands over at most {@code most} records of one poll(). Goes back to the first one that is too many, so that the
     * position of the consumer, which a timer may commit, is behind what was handed over.
     */
    private void poll(int most, Duration longest, DataOutputStream content) throws IOException {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        Map<TopicPartition, Long> rest = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> each : consumer.poll(longest)) {
            if (records.size() < most) {
                records.add(each);
                noteEpoch(each);
            } else {
                rest.putIfAbsent(new TopicPartition(topic, each.partition()), each.offset());
            }
        }
        rest.forEach(this::seek);
        content.writeInt(records.size());
        for (ConsumerRecord<byte[], byte[]> each : records) {
            content.writeInt(each.partition());
            content.writeLong(each.offset());
            content.writeInt(each.value() == null ? 0 : each.value().length);
            content.write(each.value() == null ? new byte[0] : each.value());
        }
    }

    /**
     * Asks the group once to commit, and waits for its answer. commitSync() would ask again after a lost answer, and a
     * refusal would then not prove that nothing was committed. The coordinator answers requests in their order, so the
     * answer is there when committed() has its own; and commitSync() calls the callbacks of earlier commits.
     */
    private void commit(Duration longest, Map<TopicPartition, OffsetAndMetadata> offsets) {
        AtomicReference<Optional<Exception>> answer = new AtomicReference<>();
        consumer.commitAsync(offsets, (asked, error) -> answer.set(Optional.ofNullable(error)));
        long end = System.nanoTime() + longest.toNanos();
        while (answer.get() == null) {
            Duration rest = Duration.ofNanos(end - System.nanoTime());
            if (rest.isNegative()) {
                throw new TimeoutException("a commit has no answer after " + longest.toMillis() + " ms");
            }
            consumer.committed(offsets.keySet(), rest);
            consumer.commitSync(Map.of(), rest);
        }
        answer.get().ifPresent(error -> {
            throw error instanceof RuntimeException thrown ? thrown : new KafkaException(error);
        });
    }

    private void noteEpoch(ConsumerRecord<byte[], byte[]> record) {
        TreeMap<Long, Integer> known = epochs.computeIfAbsent(record.partition(), partition -> new TreeMap<>());
        known.tailMap(record.offset(), true).clear();
        Integer epoch = record.leaderEpoch().orElse(null);
        Map.Entry<Long, Integer> before = known.floorEntry(record.offset());
        if (before == null || !Objects.equals(before.getValue(), epoch)) {
            known.put(record.offset(), epoch);
        }
    }

    /** An offset with the leader epoch of the record before it, as commitSync() without offsets would commit it. */
    private OffsetAndMetadata withEpoch(TopicPartition partition, long offset) {
        TreeMap<Long, Integer> known = epochs.getOrDefault(partition.partition(), new TreeMap<>());
        Map.Entry<Long, Integer> before = known.floorEntry(offset - 1);
        return new OffsetAndMetadata(offset, Optional.ofNullable(before).map(Map.Entry::getValue), "");
    }

    private Map<TopicPartition, OffsetAndMetadata> withEpochs(Map<TopicPartition, Long> offsets) {
        Map<TopicPartition, OffsetAndMetadata> all = new HashMap<>();
        offsets.forEach((partition, offset) -> all.put(partition, withEpoch(partition, offset)));
        return all;
    }

    private void seek(TopicPartition partition, long offset) {
        if (offset == BEGINNING) {
            consumer.seekToBeginning(List.of(partition));
        } else if (offset == END) {
            consumer.seekToEnd(List.of(partition));
        } else {
            consumer.seek(partition, withEpoch(partition, offset));
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        tell("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        tell("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        tell("lost", partitions);
    }

    /** Tells the member of an event, and waits until it has dealt with it. The client would log an error, and go on. */
    private void tell(String event, Collection<TopicPartition> partitions) {
        try {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream content = new DataOutputStream(bytes);
            put(content, event);
            content.writeInt(partitions.size());
            for (TopicPartition each : partitions) {
                content.writeInt(each.partition());
            }
            write(answers, 'V', bytes.toByteArray());
            serve();
        } catch (EOFException ended) {
            Runtime.getRuntime().halt(0);
        } catch (Throwable thrown) {
            end("an event of the group failed", thrown);
        }
    }

    /** Gives a record to the client. Its report comes later; what send() itself throws is a report, too. */
    private void send(int partition, byte[] value, String name, byte[] header) {
        sent++;
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(output, partition, null, value);
        record.headers().add(name, header);
        try {
            producer.send(record, (metadata, error) -> report(error));
        } catch (RuntimeException thrown) {
            report(thrown);
        }
    }

    private synchronized void report(Exception error) {
        reported++;
        if (error != null) {
            refused.add(types(error));
        }
    }

    /** Waits for the reports of all records. Answers how many have none, and the errors of the others. */
    private void flush(DataOutputStream content) throws IOException {
        producer.flush();
        synchronized (this) {
            content.writeInt((int) Math.max(0, sent - reported));
            content.writeInt(refused.size());
            for (String each : refused) {
                put(content, each);
            }
            sent = 0;
            reported = 0;
            refused.clear();
        }
    }

    private static void write(DataOutputStream answers, char kind, byte[] content) throws IOException {
        answers.writeByte(kind);
        answers.writeInt(content.length);
        answers.write(content);
        answers.flush();
    }

    /** An error as the code of Kafka's protocol, or 0, its class with the classes above it, and its words. */
    private static byte[] error(Throwable error) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream content = new DataOutputStream(bytes);
        Errors known = Errors.forException(error);
        content.writeInt(known == Errors.UNKNOWN_SERVER_ERROR ? 0 : known.code());
        put(content, types(error));
        put(content, inOneLine(error));
        return bytes.toByteArray();
    }

    private static String types(Throwable error) {
        StringBuilder types = new StringBuilder();
        for (Class<?> each = error.getClass(); each != Object.class; each = each.getSuperclass()) {
            types.append(types.length() == 0 ? "" : ",").append(each.getName());
        }
        return types.toString();
    }

    private static String inOneLine(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable each = error; each != null; each = each.getCause()) {
            text.append(text.length() == 0 ? "" : ": ").append(each.getClass().getSimpleName());
            text.append(": ").append(each.getMessage());
        }
        return text.toString().replaceAll("\\s+", " ");
    }

    private static void end(String what, Throwable thrown) {
        System.err.println(what + ": " + inOneLine(thrown));
        thrown.printStackTrace();
        System.err.flush();
        Runtime.getRuntime().halt(FAILURE);
    }
}
