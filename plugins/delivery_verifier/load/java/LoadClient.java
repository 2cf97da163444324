import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.protocol.Errors;

/**
 * The Java client of one producer of a load. It is the child of a producer process, and ends with it.
 *
 * <p>The producer process writes frames to stdin. Each begins with a letter (see {@code serve}); numbers are big-endian.
 * Answers are lines on stdout. The outcome of each record goes into the live ledger of the producer process, and never
 * through a pipe: what was stored survives the SIGKILL of both processes. docs/reference/control-block.md is the contract.
 *
 * <p>This class knows no number of the ledger's layout and no error by name: the producer process gives both at the start.
 * Whatever goes wrong here ends this process at once, so that the producer process ends, too.
 */
public final class LoadClient {
    private static final VarHandle LONGS =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final int FAILURE = 1;

    /** A row of the table of errors: the code of the errors of a class, and its subclasses, that begin with a text. */
    private record Row(String type, String begins, int code) {
        static List<Row> read(String table) {
            List<Row> rows = new ArrayList<>();
            for (String line : table.split("\n")) {
                String[] cells = line.split("\t", -1);
                rows.add(new Row(cells[0], cells[1], Integer.parseInt(cells[2])));
            }
            return rows;
        }

        boolean fits(Throwable error) {
            if (!String.valueOf(error.getMessage()).startsWith(begins)) {
                return false;
            }
            for (Class<?> each = error.getClass(); each != null; each = each.getSuperclass()) {
                if (each.getName().equals(type)) {
                    return true;
                }
            }
            return false;
        }
    }

    /** One attempt to send a record: its slot, and whether it has an outcome. */
    private final class Attempt implements Callback {
        private final ByteBuffer segment;
        private final int slot;
        private boolean isSettled;
        private boolean isFailed;

        Attempt(ByteBuffer segment, int slot) {
            this.segment = segment;
            this.slot = slot;
        }

        /** The client would log what this method throws, and go on: the attempt would have no report. So it ends all. */
        @Override
        public void onCompletion(RecordMetadata metadata, Exception error) {
            try {
                settle(this, metadata, error);
            } catch (Throwable thrown) {
                end("the callback of a record failed", thrown);
            }
        }
    }

    private final Map<String, String> layout;
    private final List<Row> refusals;
    private final List<Row> errors;
    private final String topic;
    private final boolean acksNothing;
    private final int shift;
    private final int slots;
    private final int reportedAt;
    private final int failedAt;
    private final int indeterminateAt;
    private final int repeatedAt;
    private final long failed;
    private final long indeterminate;
    private final ByteBuffer control;
    private final KafkaProducer<byte[], byte[]> producer;
    private final PrintStream answers;
    private final Thread sender = Thread.currentThread();
    private final Map<Integer, Path> folders = new HashMap<>();
    private final Map<Integer, Long> mappedNumbers = new HashMap<>();
    private final Map<Integer, ByteBuffer> mapped = new HashMap<>();
    private final Object reports = new Object();
    private Attempt inSend;

    private LoadClient(Map<String, String> layout, Properties settings, PrintStream answers) throws IOException {
        this.layout = layout;
        this.answers = answers;
        refusals = Row.read(layout.get("refusals"));
        errors = Row.read(layout.get("errors"));
        topic = layout.get("topic");
        acksNothing = "0".equals(settings.getProperty("acks"));
        shift = number("shift");
        slots = 1 << shift;
        reportedAt = number("word.REPORTED");
        failedAt = number("word.FAILED");
        indeterminateAt = number("word.INDETERMINATE");
        repeatedAt = number("word.REPEATED");
        failed = number("result.FAILED");
        indeterminate = number("result.INDETERMINATE");
        control = map(Path.of(layout.get("control")), Files.size(Path.of(layout.get("control"))));
        producer = new KafkaProducer<>(settings);
    }

    private int number(String name) {
        return Integer.parseInt(layout.get(name));
    }

    public static void main(String[] arguments) {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> end("a thread failed", thrown));
        try {
            DataInputStream frames = new DataInputStream(new BufferedInputStream(System.in, 1 << 18));
            Map<String, String> layout = texts(frames);
            Properties settings = new Properties();
            settings.putAll(texts(frames));
            LoadClient client;
            try {
                client = new LoadClient(layout, settings, answers);
            } catch (RuntimeException refused) {
                answer(answers, "refused " + inOneLine(refused));
                return;
            }
            answer(answers, "ready");
            client.serve(frames);
        } catch (EOFException ended) {
            Runtime.getRuntime().halt(0);
        } catch (Throwable thrown) {
            end("the client failed", thrown);
        }
    }

    private static Map<String, String> texts(DataInputStream frames) throws IOException {
        Map<String, String> texts = new HashMap<>();
        for (int left = frames.readInt(); left > 0; left--) {
            String name = text(frames);
            texts.put(name, text(frames));
        }
        return texts;
    }

    private static String text(DataInputStream frames) throws IOException {
        return new String(frames.readNBytes(frames.readInt()), StandardCharsets.UTF_8);
    }

    /** Does what the frames say, one after the other, until stdin ends. Stdin ends when the producer process does. */
    private void serve(DataInputStream frames) throws IOException {
        while (true) {
            byte kind = frames.readByte();
            switch (kind) {
                case 'L' -> folders.put(frames.readInt(), Path.of(text(frames)));
                case 'S' -> {
                    send(frames);
                    answer(answers, "taken");
                }
                case 'F' -> {
                    Thread flush = new Thread(producer::flush, "flush");
                    flush.setDaemon(true);
                    flush.start();
                }
                case 'C' -> call(frames.readInt(), text(frames));
                default -> throw new IOException("unknown frame " + kind);
            }
        }
    }

    /** Sends a block: consecutive records of one size to one partition. */
    private void send(DataInputStream frames) throws IOException {
        int ledger = frames.readInt();
        int partition = frames.readInt();
        long first = frames.readLong();
        int count = frames.readInt();
        int size = frames.readInt();
        for (long sequence = first; sequence < first + count; sequence++) {
            byte[] value = new byte[size];
            frames.readFully(value);
            Attempt attempt = new Attempt(segment(ledger, sequence >> shift), (int) (sequence & (slots - 1)));
            inSend = attempt;
            try {
                producer.send(new ProducerRecord<>(topic, partition, null, value), attempt);
            } catch (RuntimeException thrown) {
                settle(attempt, null, thrown);
            }
            inSend = null;
        }
    }

    private ByteBuffer segment(int ledger, long number) throws IOException {
        Long last = mappedNumbers.get(ledger);
        if (last == null || last != number) { // attempts without a report keep the earlier segment mapped
            Path file = folders.get(ledger).resolve(String.format("segment-%06d", number));
            mapped.put(ledger, map(file, 3L * 8 * slots));
            mappedNumbers.put(ledger, number);
        }
        return mapped.get(ledger);
    }

    private static ByteBuffer map(Path file, long size) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            if (channel.size() < size) {
                throw new IOException(file + " has " + channel.size() + " bytes, not " + size);
            }
            return channel.map(FileChannel.MapMode.READ_WRITE, 0, size);
        }
    }

    /**
     * Stores the outcome of an attempt, and counts it. The first report of an attempt wins.
     *
     * <p>FAILED needs proof: the error left send() itself, on the thread that called it, and is one of {@code refusals}.
     * The client appends a record before it looks whether the transaction may go on, so no other error proves anything,
     * and such a record may get a second report. A second report about a record that was FAILED refutes the proof.
     */
    private void settle(Attempt attempt, RecordMetadata metadata, Throwable error) {
        boolean isInside = Thread.currentThread() == sender && attempt == inSend;
        synchronized (reports) {
            if (attempt.isSettled) {
                if (attempt.isFailed && !isInside) { // inside, one send() has told the same refusal twice
                    throw new IllegalStateException("a second report about a record that send() refused", error);
                }
                count(repeatedAt);
                return;
            }
            attempt.isSettled = true;
            long result;
            int word;
            if (error == null) {
                result = resultOf(metadata);
                word = reportedAt;
            } else {
                Row refusal = isInside ? rowOf(refusals, error) : null;
                attempt.isFailed = refusal != null;
                result = refusal != null ? failed - refusal.code : indeterminate - codeOf(error);
                word = refusal != null ? failedAt : indeterminateAt;
            }
            Instant now = Instant.now();
            long settled = now.getEpochSecond() * 1_000_000_000L + now.getNano();
            LONGS.setRelease(attempt.segment, 8 * (2 * slots + attempt.slot), settled);
            LONGS.setRelease(attempt.segment, 8 * attempt.slot, result);
            count(word);
        }
    }

    /** With acks=0 no broker sends an offset. Otherwise one is missing after a retry that was found to be a duplicate. */
    private long resultOf(RecordMetadata metadata) {
        if (acksNothing) {
            return number("result.SENT");
        }
        return metadata.hasOffset() ? metadata.offset() + 1 : number("result.ACKED_NOWHERE");
    }

    private void count(int word) {
        LONGS.setRelease(control, 8 * word, (long) LONGS.get(control, 8 * word) + 1);
    }

    private static Row rowOf(List<Row> rows, Throwable error) {
        for (Row row : rows) {
            if (row.fits(error)) {
                return row;
            }
        }
        return null;
    }

    /** Returns the code of an error: that of its row, else that of Kafka's protocol, else that of its cause. */
    private int codeOf(Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            Row row = rowOf(errors, each);
            if (row != null) {
                return row.code;
            }
            Errors known = Errors.forException(each);
            if (known != Errors.UNKNOWN_SERVER_ERROR && known.code() > 0) {
                return known.code();
            }
        }
        return number("code.UNLISTED");
    }

    /** Calls a method of the client, and answers with its end: `done`, or `error` with code, class and message. */
    private void call(int id, String method) {
        try {
            switch (method) {
                case "connect" -> producer.partitionsFor(topic);
                case "init_transactions" -> producer.initTransactions();
                case "begin_transaction" -> producer.beginTransaction();
                case "commit_transaction" -> producer.commitTransaction();
                case "abort_transaction" -> producer.abortTransaction();
                default -> throw new IllegalArgumentException("unknown method " + method);
            }
            answer(answers, "done " + id);
        } catch (RuntimeException thrown) {
            StringBuilder types = new StringBuilder();
            for (Class<?> each = thrown.getClass(); each != Object.class; each = each.getSuperclass()) {
                types.append(each.getName()).append(',');
            }
            answer(answers, "error " + id + " " + codeOf(thrown) + " " + types + " " + inOneLine(thrown));
        }
    }

    private static String inOneLine(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable each = error; each != null; each = each.getCause()) {
            text.append(text.length() == 0 ? "" : ": ").append(each.getClass().getSimpleName());
            text.append(": ").append(each.getMessage());
        }
        return text.toString().replaceAll("\\s+", " ");
    }

    private static void answer(PrintStream answers, String line) {
        synchronized (answers) {
            answers.println(line);
            answers.flush();
        }
    }

    private static void end(String what, Throwable thrown) {
        System.err.println(what + ": " + inOneLine(thrown));
        thrown.printStackTrace();
        System.err.flush();
        Runtime.getRuntime().halt(FAILURE);
    }
}
