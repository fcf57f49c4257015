import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;

/**
 * Messages by Kafka's generated classes: reads lines and writes lines.
 *
 * <ul>
 *   <li>{@code parse CLASS VERSION HEX} is answered by what the bytes are written back as, how many were read, and the
 *       message as JSON; by {@code !} and the error if Kafka rejects them.
 *   <li>{@code random CLASS VERSION SEED} is answered by the bytes of a random message.
 *   <li>{@code rewrite CLASS VERSION HEX OTHER} is answered by the message in another version, or by {@code !} and the
 *       error if that version cannot carry it.
 *   <li>{@code empty CLASS VERSION} is answered by a message without values, or by {@code !} and the error.
 * </ul>
 */
public final class Oracle {
    private static final String PACKAGE = "org.apache.kafka.common.message.";

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", -1);
            Class<?> type = Class.forName(PACKAGE + parts[1]);
            short version = Short.parseShort(parts[2]);
            String answer = switch (parts[0]) {
                case "parse" -> parse(type, version, HexFormat.of().parseHex(parts[3]));
                case "random" -> hex(new RandomMessage(Long.parseLong(parts[3]), version).of(type), version);
                case "rewrite" -> {
                    Message message = instance(type);
                    message.read(new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(parts[3]))), version);
                    yield hex(message, Short.parseShort(parts[4]));
                }
                default -> hex(instance(type), version);
            };
            System.out.write((answer + "\n").getBytes(StandardCharsets.UTF_8));
            System.out.flush();
        }
    }

    private static String parse(Class<?> type, short version, byte[] frame) throws Exception {
        Message message = instance(type);
        ByteBuffer buffer = ByteBuffer.wrap(frame);
        try {
            message.read(new ByteBufferAccessor(buffer), version);
            int position = buffer.position();
            Method json = Class.forName(type.getName() + "JsonConverter").getMethod("write", type, short.class);
            JsonNode node = (JsonNode) json.invoke(null, message, version);
            return HexFormat.of().formatHex(bytes(message, version)) + " " + position + " " + node;
        } catch (InvocationTargetException error) {
            return "! " + error.getCause().toString().replace('\n', ' ');
        } catch (RuntimeException error) {
            return "! " + error.toString().replace('\n', ' ');
        }
    }

    private static Message instance(Class<?> type) throws Exception {
        return (Message) type.getConstructor().newInstance();
    }

    private static String hex(Message message, short version) {
        try {
            return HexFormat.of().formatHex(bytes(message, version));
        } catch (RuntimeException error) { // the version has no such field, or takes no null
            return "! " + error.toString().replace('\n', ' ');
        }
    }

    private static byte[] bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(message + " is shorter than its size");
        }
        return buffer.array();
    }

    /** Sets each field that this version lets be set. */
    private static final class RandomMessage {
        private static final long[] EDGES = {0, 1, -1, 2, 127, 128, 255, 256, 65535, 1 << 31, Long.MAX_VALUE, Long.MIN_VALUE};

        private final Random random;
        private final short version;

        RandomMessage(long seed, short version) {
            this.random = new Random(seed);
            this.version = version;
        }

        /** Returns a message, or a struct in one; null if this version has no such struct. */
        Message of(Class<?> type) throws Exception {
            Message message = instance(type);
            List<Method> setters = setters(type);
            for (Method setter : setters) { // the default of some is null where this version takes no null
                if (getter(type, setter).invoke(message) == null && !isWritable(message)) {
                    set(message, setter, false);
                }
            }
            if (!isWritable(message)) {
                return null;
            }
            for (Method setter : setters) {
                Object before = getter(type, setter).invoke(message);
                if (random.nextInt(8) > 0 && !(set(message, setter, true) && isWritable(message))) {
                    setter.invoke(message, before);
                }
            }
            if (random.nextInt(8) == 0) {
                for (int tag = 100 + random.nextInt(50); random.nextInt(3) > 0; tag += 1 + random.nextInt(1000)) {
                    message.unknownTaggedFields().add(new RawTaggedField(tag, randomBytes()));
                }
                if (!isWritable(message)) {
                    message.unknownTaggedFields().clear();
                }
            }
            return message;
        }

        private static List<Method> setters(Class<?> type) {
            return Stream.of(type.getDeclaredMethods())
                    .filter(method -> method.getName().startsWith("set") && method.getParameterCount() == 1)
                    .filter(method -> !List.of("setPrev", "setNext").contains(method.getName()))
                    .sorted(Comparator.comparing(Method::getName))
                    .toList();
        }

        private static Method getter(Class<?> type, Method setter) throws Exception {
            String name = setter.getName().substring(3);
            return type.getMethod(name.substring(0, 1).toLowerCase() + name.substring(1));
        }

        private boolean isWritable(Message message) {
            try {
                bytes(message, version);
                return true;
            } catch (RuntimeException error) { // the version has no such field, or takes no null
                return false;
            }
        }

        /** Returns whether the field took the value: an unsigned one rejects negative numbers. */
        private boolean set(Message message, Method setter, boolean orNull) throws Exception {
            try {
                setter.invoke(message, value(setter.getParameterTypes()[0], setter.getGenericParameterTypes()[0], orNull));
                return true;
            } catch (InvocationTargetException error) {
                return false;
            }
        }

        private Object value(Class<?> type, Type generic, boolean orNull) throws Exception {
            if (type == boolean.class) {
                return random.nextBoolean();
            } else if (type == byte.class) {
                return (byte) number();
            } else if (type == short.class) {
                return (short) number();
            } else if (type == int.class) {
                return (int) number();
            } else if (type == long.class) {
                return number();
            } else if (type == double.class) {
                return random.nextGaussian();
            } else if (type == Uuid.class) {
                return random.nextInt(4) == 0 ? Uuid.ZERO_UUID : new Uuid(random.nextLong(), random.nextLong());
            } else if (orNull && random.nextInt(5) == 0) {
                return null;
            } else if (type == String.class) {
                return string();
            } else if (type == byte[].class) {
                return randomBytes();
            } else if (type == ByteBuffer.class) {
                return ByteBuffer.wrap(randomBytes());
            } else if (type == BaseRecords.class) {
                return MemoryRecords.readableRecords(ByteBuffer.wrap(randomBytes()));
            } else if (Collection.class.isAssignableFrom(type)) {
                return collection(type, generic);
            }
            return of(type);
        }

        private Object collection(Class<?> type, Type generic) throws Exception {
            Type holder = generic instanceof ParameterizedType ? generic : type.getGenericSuperclass();
            Type element = ((ParameterizedType) holder).getActualTypeArguments()[0];
            Class<?> raw = element instanceof Class<?> known ? unboxed(known) : (Class<?>) ((ParameterizedType) element).getRawType();
            @SuppressWarnings("unchecked")
            Collection<Object> values = type == List.class
                    ? new ArrayList<>()
                    : (Collection<Object>) type.getConstructor().newInstance();
            for (int i = random.nextInt(raw == int.class && random.nextInt(8) == 0 ? 200 : 4); i > 0; i--) {
                Object value = value(raw, element, false);
                if (value != null) {
                    values.add(value);
                }
            }
            return values;
        }

        private static Class<?> unboxed(Class<?> type) {
            if (type == Integer.class) {
                return int.class;
            } else if (type == Short.class) {
                return short.class;
            } else if (type == Long.class) {
                return long.class;
            }
            return type == Byte.class ? byte.class : type;
        }

        private long number() {
            return switch (random.nextInt(3)) {
                case 0 -> EDGES[random.nextInt(EDGES.length)];
                case 1 -> random.nextInt(100);
                default -> random.nextLong();
            };
        }

        private String string() {
            String some = Stream.of("", "a", "topic-1", "\u00e9\u4e16\ud83d\ude00", "\0").toList().get(random.nextInt(5));
            return random.nextInt(10) == 0 ? some + "x".repeat(random.nextInt(300)) : some;
        }

        private byte[] randomBytes() {
            byte[] bytes = new byte[random.nextInt(10) == 0 ? random.nextInt(300) : random.nextInt(6)];
            random.nextBytes(bytes);
            return bytes;
        }
    }
}
