import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicNumber;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.ErrorMode;
import org.apache.curator.framework.recipes.queue.QueueBase;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.recipes.shared.SharedValueListener;
import org.apache.curator.framework.recipes.shared.SharedValueReader;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;

/**
 * Curator's recipes, driven by lines of fields separated by tabs.
 *
 * <pre>
 * number  object  verb  argument...     a command
 * number  ok      value                 its result
 * number  list    value...              its result, if that is a collection
 * number  error   class  message        what it has thrown
 * *       object  value...              an event
 * </pre>
 *
 * A value begins with its type: s(tring), b(ytes, in hex), i(nteger), z (boolean), n(ull). The commands of one
 * object run one after the other, in a thread of its own, since Curator's locks belong to threads.
 */
public final class CuratorPeer {
    /** An object: what it does at a verb. */
    private interface Thing {
        Object call(String verb, String[] arguments) throws Exception;
    }

    private interface Events {
        void emit(Object... values);
    }

    /** What a name stands for; {@code client} is the name of the client that it was made with. */
    private record Named(String client, Thing thing, ExecutorService thread) {}

    private static final HexFormat HEX = HexFormat.of();
    private static final Map<String, Named> OBJECTS = new ConcurrentHashMap<>();
    private static final Map<String, CuratorFramework> CLIENTS = new ConcurrentHashMap<>();
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    public static void main(String[] unused) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] fields = line.split("\t", -1);
            String[] arguments = Arrays.copyOfRange(fields, 3, fields.length);
            command(fields[0], fields[1], fields[2], arguments);
        }
        System.exit(0); // whatever is still waiting
    }

    private static void command(String number, String name, String verb, String[] arguments) {
        if (verb.equals("new")) {
            var thread = Executors.newSingleThreadExecutor(CuratorPeer::daemon);
            OBJECTS.put(name, new Named(arguments[1], null, thread));
        }
        try {
            OBJECTS.get(name).thread().execute(() -> print(number + "\t" + answer(name, verb, arguments)));
        } catch (NullPointerException | RejectedExecutionException closed) {
            print(number + "\terror\tClosed\t" + name + " is closed");
        }
    }

    private static String answer(String name, String verb, String[] a) {
        try {
            if (verb.equals("new")) {
                Thing thing = make(name, a[0], Arrays.copyOfRange(a, 1, a.length));
                OBJECTS.computeIfPresent(name, (key, old) -> new Named(old.client(), thing, old.thread()));
                return "ok\tn:";
            }
            Object result = OBJECTS.get(name).thing().call(verb, a);
            return result instanceof Collection<?> many ? "list" + join(many.toArray()) : "ok" + join(result);
        } catch (Throwable error) {
            String message = String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
            return "error\t" + error.getClass().getSimpleName() + "\t" + message;
        }
    }

    private static Thread daemon(Runnable task) {
        var thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    }

    private static synchronized void print(String line) {
        OUT.println(line);
        OUT.flush();
    }

    private static String join(Object... values) {
        var text = new StringBuilder();
        for (Object value : values) {
            text.append('\t');
            if (value == null) {
                text.append("n:");
            } else if (value instanceof byte[] bytes) {
                text.append("b:").append(HEX.formatHex(bytes));
            } else if (value instanceof Number) {
                text.append("i:").append(value);
            } else if (value instanceof Boolean) {
                text.append("z:").append(value);
            } else {
                text.append("s:").append(value);
            }
        }
        return text.toString();
    }

    // --- making -------------------------------------------------------------------------------------------

    private static Thing make(String name, String kind, String[] a) throws Exception {
        Events events = values -> print("*\t" + name + join(values));
        if (kind.equals("client")) {
            return client(name, a[0], Integer.parseInt(a[1]), events);
        }
        CuratorFramework zk = CLIENTS.get(a[0]);
        return switch (kind) {
            case "mutex" -> mutex(new InterProcessMutex(zk, a[1]), events);
            case "semaphore_mutex" -> lock(new InterProcessSemaphoreMutex(zk, a[1]));
            case "multi_lock" -> lock(new InterProcessMultiLock(zk, List.of(a).subList(1, a.length)));
            case "rw_lock" -> readWriteLock(
                    a.length > 2
                            ? new InterProcessReadWriteLock(zk, a[1], HEX.parseHex(a[2]))
                            : new InterProcessReadWriteLock(zk, a[1]));
            case "semaphore" -> semaphore(new InterProcessSemaphoreV2(zk, a[1], Integer.parseInt(a[2])));
            case "counted_semaphore" -> {
                var limit = new SharedCount(zk, a[2], 1);
                limit.start();
                yield semaphore(new InterProcessSemaphoreV2(zk, a[1], limit));
            }
            case "latch" -> latch(new LeaderLatch(zk, a[1], a[2]), events);
            case "selector" -> selector(zk, a[1], a[2], events);
            case "barrier" -> barrier(new DistributedBarrier(zk, a[1]));
            case "double_barrier" -> doubleBarrier(new DistributedDoubleBarrier(zk, a[1], Integer.parseInt(a[2])));
            case "shared_count" -> sharedCount(new SharedCount(zk, a[1], Integer.parseInt(a[2])), events);
            case "shared_value" -> sharedValue(new SharedValue(zk, a[1], HEX.parseHex(a[2])), events);
            case "atomic_integer" -> atomic(
                    new DistributedAtomicInteger(zk, a[1], new RetryNTimes(20, 5)), Integer::valueOf);
            case "atomic_long" -> atomic(new DistributedAtomicLong(zk, a[1], new RetryNTimes(20, 5)), Long::valueOf);
            case "simple_queue" -> simpleQueue(new SimpleDistributedQueue(zk, a[1]));
            case "queue", "priority_queue", "delay_queue", "id_queue" -> queue(kind, zk, a, events);
            case "group" -> group(new GroupMember(zk, a[1], a[2], HEX.parseHex(a[3])));
            case "persistent_node" -> node(
                    new PersistentNode(zk, CreateMode.valueOf(a[2]), false, a[1], HEX.parseHex(a[3])));
            case "ttl_node" -> ttlNode(new PersistentTtlNode(zk, a[1], Long.parseLong(a[2]), HEX.parseHex(a[3])));
            default -> throw new IllegalArgumentException(kind);
        };
    }

    private static Thing client(String name, String hosts, int sessionTimeout, Events events) throws Exception {
        CuratorFramework zk = CuratorFrameworkFactory.builder()
                .connectString(hosts)
                .sessionTimeoutMs(sessionTimeout)
                .connectionTimeoutMs(10_000)
                .retryPolicy(new RetryNTimes(200, 50))
                .build();
        zk.getConnectionStateListenable().addListener((client, state) -> events.emit(state));
        zk.start();
        if (!zk.blockUntilConnected(10, TimeUnit.SECONDS)) {
            zk.close();
            throw new IllegalStateException("no connection to " + hosts);
        }
        CLIENTS.put(name, zk);
        return (verb, a) -> switch (verb) {
            case "session" -> zk.getZookeeperClient().getZooKeeper().getSessionId();
            case "exists" -> zk.checkExists().forPath(a[0]) != null;
            case "default_data" -> CuratorFrameworkFactory.getLocalAddress();
            case "revoke" -> done(() -> Revoker.attemptRevoke(zk, a[0]));
            case "close" -> done(() -> close(name));
            default -> throw unknown(verb);
        };
    }

    /** Close a client; what was made with it waits no longer. */
    private static void close(String client) {
        OBJECTS.values().removeIf(object -> {
            boolean made = object.client().equals(client);
            if (made) {
                object.thread().shutdownNow();
            }
            return made;
        });
        CLIENTS.remove(client).close();
        OBJECTS.remove(client).thread().shutdown();
    }

    private interface Action {
        void run() throws Exception;
    }

    private static Object done(Action action) throws Exception {
        action.run();
        return null;
    }

    private static IllegalArgumentException unknown(String verb) {
        return new IllegalArgumentException("no verb " + verb);
    }

    private static final TimeUnit MS = TimeUnit.MILLISECONDS;

    // --- locks --------------------------------------------------------------------------------------------

    private static Thing lock(InterProcessLock lock) {
        return (verb, a) -> switch (verb) {
            case "acquire" -> done(lock::acquire);
            case "try" -> lock.acquire(Long.parseLong(a[0]), MS);
            case "release" -> done(lock::release);
            case "held" -> lock.isAcquiredInThisProcess();
            default -> throw unknown(verb);
        };
    }

    private static Thing mutex(InterProcessMutex mutex, Events events) {
        Thing lock = lock(mutex);
        return (verb, a) -> switch (verb) {
            case "participants" -> mutex.getParticipantNodes();
            case "make_revocable" -> done(() -> mutex.makeRevocable(revoked -> events.emit("revoked")));
            default -> lock.call(verb, a);
        };
    }

    private static Thing readWriteLock(InterProcessReadWriteLock lock) {
        Thing read = mutex(lock.readLock(), null);
        Thing write = mutex(lock.writeLock(), null);
        return (verb, a) -> {
            String[] parts = verb.split("_", 2);
            return (parts[0].equals("read") ? read : write).call(parts[1], a);
        };
    }

    private static Thing semaphore(InterProcessSemaphoreV2 semaphore) {
        Map<String, Lease> leases = new ConcurrentHashMap<>();
        return (verb, a) -> switch (verb) {
            case "acquire" -> keep(leases, semaphore.acquire());
            case "try" -> keep(leases, semaphore.acquire(Long.parseLong(a[0]), MS));
            case "acquire_many" -> semaphore.acquire(Integer.parseInt(a[0])).stream()
                    .map(lease -> keep(leases, lease))
                    .toList();
            case "data" -> leases.get(a[0]).getData();
            case "release" -> done(() -> semaphore.returnLease(leases.remove(a[0])));
            case "participants" -> semaphore.getParticipantNodes();
            case "set_data" -> done(() -> semaphore.setNodeData(HEX.parseHex(a[0])));
            default -> throw unknown(verb);
        };
    }

    private static String keep(Map<String, Lease> leases, Lease lease) {
        if (lease == null) {
            return null;
        }
        leases.put(lease.getNodeName(), lease);
        return lease.getNodeName();
    }

    // --- leaders ------------------------------------------------------------------------------------------

    private static Thing latch(LeaderLatch latch, Events events) {
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                events.emit("leads");
            }

            @Override
            public void notLeader() {
                events.emit("deposed");
            }
        });
        return (verb, a) -> switch (verb) {
            case "start" -> done(latch::start);
            case "await" -> done(latch::await);
            case "leads" -> latch.hasLeadership();
            case "path" -> latch.getOurPath();
            case "leader" -> latch.getLeader().getId();
            case "participants" -> latch.getParticipants().stream().map(Participant::getId).toList();
            case "close" -> done(latch::close);
            default -> throw unknown(verb);
        };
    }

    private static Thing selector(CuratorFramework zk, String path, String id, Events events) {
        var resignations = new SynchronousQueue<String>();
        var selector = new LeaderSelector(zk, path, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) throws Exception {
                events.emit("leads");
                try {
                    resignations.take();
                } catch (InterruptedException interrupt) {
                    events.emit("deposed");
                    throw interrupt;
                }
            }
        });
        selector.setId(id);
        return (verb, a) -> switch (verb) {
            case "start" -> done(selector::start);
            case "resign" -> done(() -> resignations.put(""));
            case "leads" -> selector.hasLeadership();
            case "leader" -> selector.getLeader().getId();
            case "participants" -> selector.getParticipants().stream().map(Participant::getId).toList();
            case "close" -> done(selector::close);
            default -> throw unknown(verb);
        };
    }

    // --- barriers -----------------------------------------------------------------------------------------

    private static Thing barrier(DistributedBarrier barrier) {
        return (verb, a) -> switch (verb) {
            case "set" -> done(barrier::setBarrier);
            case "remove" -> done(barrier::removeBarrier);
            case "wait" -> done(barrier::waitOnBarrier);
            case "try" -> barrier.waitOnBarrier(Long.parseLong(a[0]), MS);
            default -> throw unknown(verb);
        };
    }

    private static Thing doubleBarrier(DistributedDoubleBarrier barrier) {
        return (verb, a) -> switch (verb) {
            case "enter" -> done(barrier::enter);
            case "leave" -> done(barrier::leave);
            default -> throw unknown(verb);
        };
    }

    // --- values -------------------------------------------------------------------------------------------

    private static Thing sharedCount(SharedCount count, Events events) {
        count.addListener(new SharedCountListener() {
            @Override
            public void countHasChanged(SharedCountReader reader, int value) {
                events.emit(value);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        });
        return (verb, a) -> switch (verb) {
            case "start" -> done(count::start);
            case "get" -> count.getCount();
            case "set" -> done(() -> count.setCount(Integer.parseInt(a[0])));
            case "try_set" -> {
                VersionedValue<Integer> seen = count.getVersionedValue();
                yield count.trySetCount(seen, Integer.parseInt(a[0]));
            }
            default -> throw unknown(verb);
        };
    }

    private static Thing sharedValue(SharedValue value, Events events) {
        value.getListenable().addListener(new SharedValueListener() {
            @Override
            public void valueHasChanged(SharedValueReader reader, byte[] bytes) {
                events.emit((Object) bytes);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        });
        return (verb, a) -> switch (verb) {
            case "start" -> done(value::start);
            case "get" -> value.getValue();
            case "set" -> done(() -> value.setValue(HEX.parseHex(a[0])));
            case "try_set" -> value.trySetValue(value.getVersionedValue(), HEX.parseHex(a[0]));
            default -> throw unknown(verb);
        };
    }

    private static <T> Thing atomic(DistributedAtomicNumber<T> number, Function<String, T> parse) {
        return (verb, a) -> {
            if (verb.equals("set")) {
                return done(() -> number.forceSet(parse.apply(a[0])));
            }
            AtomicValue<T> result = switch (verb) {
                case "get" -> number.get();
                case "add" -> number.add(parse.apply(a[0]));
                case "compare_and_set" -> number.compareAndSet(parse.apply(a[0]), parse.apply(a[1]));
                default -> throw unknown(verb);
            };
            return Arrays.asList(result.succeeded(), result.preValue(), result.postValue());
        };
    }

    // --- queues -------------------------------------------------------------------------------------------

    private static Thing simpleQueue(SimpleDistributedQueue queue) {
        return (verb, a) -> switch (verb) {
            case "offer" -> queue.offer(HEX.parseHex(a[0]));
            case "peek" -> queue.peek();
            case "poll" -> queue.poll();
            case "take" -> queue.take();
            default -> throw unknown(verb);
        };
    }

    private static final QueueSerializer<byte[]> RAW = new QueueSerializer<>() {
        @Override
        public byte[] serialize(byte[] item) {
            return item;
        }

        @Override
        public byte[] deserialize(byte[] bytes) {
            return bytes;
        }
    };

    /** Arguments: client, path, "produce" or "consume", and maybe a path for locks. A consumer reports each item
     * and waits to be told whether it is "done" or has "failed". */
    private static Thing queue(String kind, CuratorFramework zk, String[] a, Events events) throws Exception {
        var verdicts = new SynchronousQueue<String>();
        var consumer = new QueueConsumer<byte[]>() {
            @Override
            public void consumeMessage(byte[] item) throws Exception {
                events.emit((Object) item);
                if (verdicts.take().equals("failed")) {
                    throw new Exception("the consumer has failed");
                }
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        };
        var builder = QueueBuilder.builder(zk, a[2].equals("consume") ? consumer : null, RAW, a[1]);
        if (a.length > 3) {
            builder.lockPath(a[3]);
        }
        QueueBase<byte[]> queue = switch (kind) {
            case "priority_queue" -> builder.buildPriorityQueue(0);
            case "delay_queue" -> builder.buildDelayQueue();
            case "id_queue" -> builder.buildIdQueue();
            default -> builder.buildQueue();
        };
        if (a.length > 3) {
            queue.setErrorMode(ErrorMode.REQUEUE);
        }
        return (verb, b) -> switch (verb) {
            case "start" -> done(queue::start);
            case "put" -> done(() -> put(queue, HEX.parseHex(b[0]), b.length > 1 ? b[1] : null));
            case "put_multi" -> done(() -> {
                var items = List.of(b).iterator();
                ((DistributedQueue<byte[]>) queue)
                        .putMulti(() -> items.hasNext() ? HEX.parseHex(items.next()) : null);
            });
            case "remove" -> ((DistributedIdQueue<byte[]>) queue).remove(b[0]);
            case "done", "failed" -> done(() -> verdicts.put(verb));
            case "close" -> done(queue::close);
            default -> throw unknown(verb);
        };
    }

    private static void put(QueueBase<byte[]> queue, byte[] item, String extra) throws Exception {
        if (queue instanceof DistributedPriorityQueue<byte[]> byPriority) {
            byPriority.put(item, Integer.parseInt(extra));
        } else if (queue instanceof DistributedDelayQueue<byte[]> delayed) {
            delayed.put(item, Long.parseLong(extra));
        } else if (queue instanceof DistributedIdQueue<byte[]> byId) {
            byId.put(item, extra);
        } else {
            ((DistributedQueue<byte[]>) queue).put(item);
        }
    }

    // --- nodes --------------------------------------------------------------------------------------------

    private static Thing group(GroupMember member) {
        return (verb, a) -> switch (verb) {
            case "start" -> done(member::start);
            case "members" -> member.getCurrentMembers().keySet().stream().sorted().toList();
            case "data" -> member.getCurrentMembers().get(a[0]);
            case "close" -> done(member::close);
            default -> throw unknown(verb);
        };
    }

    private static Thing node(PersistentNode node) {
        return (verb, a) -> switch (verb) {
            case "start" -> {
                node.start();
                yield node.waitForInitialCreate(10, TimeUnit.SECONDS);
            }
            case "path" -> node.getActualPath();
            case "set" -> done(() -> node.setData(HEX.parseHex(a[0])));
            case "close" -> done(node::close);
            default -> throw unknown(verb);
        };
    }

    private static Thing ttlNode(PersistentTtlNode node) {
        return (verb, a) -> switch (verb) {
            case "start" -> {
                node.start();
                yield node.waitForInitialCreate(10, TimeUnit.SECONDS);
            }
            case "close" -> done(node::close);
            default -> throw unknown(verb);
        };
    }
}
