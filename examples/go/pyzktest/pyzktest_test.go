package pyzktest

import (
	"fmt"
	"io"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	sessionTimeout = 10 * time.Second
	patience       = 30 * time.Second
)

// connect returns a connected client, with a name for its session, that is closed after the test.
func connect(t *testing.T, s *Server, name string) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	s.Post("/names", Object{"name": name})
	conn, events, err := zk.Connect(strings.Split(s.Hosts, ","), sessionTimeout, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	await(t, events, zk.StateHasSession)
	return conn, events
}

// await waits until a client is in a state.
func await(t *testing.T, events <-chan zk.Event, state zk.State) {
	t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case event := <-events:
			if event.State == state {
				return
			}
		case <-deadline:
			t.Fatalf("the client is not told: %s", state)
		}
	}
}

// receive waits for what a goroutine, or a watch, has to say.
func receive[T any](t *testing.T, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(patience):
		t.Fatal("nothing comes")
	}
	return value
}

func lock(conn *zk.Conn) error {
	return zk.NewLock(conn, "/locks/printer", zk.WorldACL(zk.PermAll)).Lock()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func checkTree(t *testing.T, s *Server, znodes Object) {
	t.Helper()
	if message := s.Post("/tree/diff", Object{"znodes": znodes}).Message; message != "" {
		t.Error(message)
	}
}

func TestExpireALockHolder(t *testing.T) {
	t.Parallel()
	s := New(t, nil)
	holder, events := connect(t, s, "holder")
	other, _ := connect(t, s, "other")
	check(t, lock(holder))
	locked := make(chan error, 1)
	go func() { locked <- lock(other) }()
	s.Post("/wait", Object{"until": "request", "session": "other", "op": "get_data", "path": "/locks/**"})

	s.Post("/sessions/holder/expire", nil)

	check(t, receive(t, locked))
	await(t, events, zk.StateExpired) // the holder is told
}

func TestACreateWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	s := New(t, nil)
	conn, _ := connect(t, s, "client")
	s.Post("/tree", Object{"znodes": Object{"/queue": ""}})
	lost := s.Post("/faults", Object{"op": "create", "path": "/queue/*", "when": "after"}).Fault

	path, err := conn.CreateProtectedEphemeralSequential("/queue/n-", nil, zk.WorldACL(zk.PermAll))

	check(t, err) // it has looked for its znode, instead of creating another one
	if fired := s.Call("GET", fmt.Sprint("/faults/", lost), nil).Fired; fired != 1 {
		t.Errorf("%d replies were lost", fired)
	}
	checkTree(t, s, Object{"/queue": "", path: nil})
}

func TestAnHourPassesForATTL(t *testing.T) {
	t.Parallel()
	s := New(t, Object{"config": Object{"extendedTypesEnabled": true}})
	conn, _ := connect(t, s, "client")
	page := Object{"data": "page", "kind": "ttl", "ttl_ms": 3_600_000}
	s.Post("/tree", Object{"znodes": Object{"/cached": page}})
	s.Post("/clock/advance", Object{"seconds": 59 * 60, "keep_alive": true})
	exists, _, deleted, err := conn.ExistsW("/cached")
	check(t, err)
	if !exists {
		t.Fatal("it is too early")
	}

	s.Post("/clock/advance", Object{"seconds": 2 * 60, "keep_alive": true})

	if event := receive(t, deleted); event.Type != zk.EventNodeDeleted {
		t.Error(event)
	}
}

func TestAClientIsCutOffAndDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := New(t, nil)
	worker, _ := connect(t, s, "worker")
	other, _ := connect(t, s, "other")
	s.Post("/tree", Object{"znodes": Object{"/report": "old"}})
	check(t, lock(worker))

	s.Post("/sessions/worker/pause", nil)
	written := make(chan error, 1)
	go func() {
		_, err := worker.Set("/report", []byte("new"), -1)
		written <- err
	}()
	time.Sleep(100 * time.Millisecond)
	if worker.State() != zk.StateHasSession || len(written) > 0 {
		t.Error("the worker knows")
	}
	s.Post("/connections/refuse", nil)                                  // so that it has no other session soon
	s.Post("/clock/advance", Object{"seconds": 60, "keep_alive": true}) // its session expires

	check(t, lock(other))
	if receive(t, written) == nil {
		t.Error("the worker has written without the lock")
	}
	s.Post("/connections/accept", nil)
	if data, _, err := other.Get("/report"); err != nil || string(data) != "old" {
		t.Error(data, err)
	}
}

func TestAPartitionThatLasts(t *testing.T) {
	t.Parallel()
	s := New(t, nil)
	worker, events := connect(t, s.Endpoint("worker"), "worker")
	other, _ := connect(t, s, "other")
	check(t, lock(worker))

	s.Post("/endpoints/worker/cut", nil)
	s.Post("/clock/advance", Object{"seconds": 60, "keep_alive": true}) // the worker's session expires

	check(t, lock(other))
	if worker.State() == zk.StateHasSession {
		t.Error("the worker is connected")
	}
	s.Post("/endpoints/worker/resume", nil)
	await(t, events, zk.StateExpired)
}

func TestRestartEmpty(t *testing.T) {
	t.Parallel()
	s := New(t, nil)
	conn, events := connect(t, s, "client")
	register := func() error {
		_, err := conn.Create("/registered", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return err
	}
	check(t, register())

	s.Post("/server/restart", Object{"keep_data": false})

	await(t, events, zk.StateExpired)
	await(t, events, zk.StateHasSession)
	checkTree(t, s, Object{})
	check(t, register())
}

func TestSeedAndCompareATree(t *testing.T) {
	t.Parallel()
	s := New(t, nil)
	s.Post("/tree", Object{"znodes": Object{"/app/config": "debug=0", "/app/workers": ""}})
	conn, _ := connect(t, s, "client")

	_, err := conn.Set("/app/config", []byte("debug=1"), 0)
	check(t, err)
	_, err = conn.Create("/app/workers/a", nil, 0, zk.WorldACL(zk.PermAll))
	check(t, err)

	checkTree(t, s, Object{"/app/config": "debug=1", "/app/workers": "", "/app/workers/a": nil})
	wrong := s.Post("/tree/diff", Object{"znodes": Object{"/app/config": "debug=0"}}).Message
	if !strings.Contains(wrong, "holds 'debug=1', expected 'debug=0'") {
		t.Error(wrong)
	}
}

func TestSnapshotAndRestoreBetweenTests(t *testing.T) {
	t.Parallel()
	s := New(t, nil)
	s.Post("/tree", Object{"znodes": Object{"/stock/apples": "3"}})
	prepared := s.Post("/snapshots", nil).Snapshot
	for _, name := range []string{"first", "second"} {
		t.Run(name, func(t *testing.T) {
			s.Post(fmt.Sprintf("/snapshots/%d/restore", prepared), nil)
			conn, _ := connect(t, s, name)
			data, _, err := conn.Get("/stock/apples")
			if err != nil || string(data) != "3" {
				t.Fatal(data, err)
			}
			_, err = conn.Set("/stock/apples", []byte("2"), 0)
			check(t, err)
		})
	}
}

func TestTheTimelineInTheMessageOfAFailingTest(t *testing.T) {
	t.Parallel()
	failing := &failingTest{TB: t}
	s := New(failing, nil)
	conn, _ := connect(t, s, "client")
	_, err := conn.Create("/state", []byte("starting"), 0, zk.WorldACL(zk.PermAll))
	check(t, err)

	if data, _, _ := conn.Get("/state"); string(data) != "ready" {
		failing.Errorf("%s, not ready", data)
	}
	failing.end()

	if shown := failing.log.String(); !strings.Contains(shown, "create /state 'starting' -> ok") {
		t.Error(shown)
	}
}

// A failingTest fails for itself alone.
type failingTest struct {
	testing.TB
	log     strings.Builder
	failed  bool
	cleanup []func()
}

func (f *failingTest) Cleanup(end func()) { f.cleanup = append(f.cleanup, end) }
func (f *failingTest) Failed() bool       { return f.failed }
func (f *failingTest) Log(args ...any)    { fmt.Fprintln(&f.log, args...) }
func (f *failingTest) Errorf(format string, a ...any) {
	f.failed = true
	f.Log(fmt.Sprintf(format, a...))
}
func (f *failingTest) end() {
	for _, end := range f.cleanup {
		end()
	}
}

func TestAnEventThatComesLate(t *testing.T) {
	t.Parallel()
	s := New(t, nil)
	conn, _ := connect(t, s, "client")
	s.Post("/tree", Object{"znodes": Object{"/config": "old"}})
	_, _, changed, err := conn.GetW("/config")
	check(t, err)
	s.Post("/holds", Object{"kind": "event", "path": "/config"})

	s.Post("/tree", Object{"znodes": Object{"/config": "new"}})

	if data, _, err := conn.Get("/config"); err != nil || string(data) != "new" || len(changed) > 0 {
		t.Error(data, err)
	}
	s.Post("/held/release", nil)
	if event := receive(t, changed); event.Type != zk.EventNodeDataChanged {
		t.Error(event)
	}
}

func TestTheLeaderOfAnEnsembleDies(t *testing.T) {
	t.Parallel()
	s := New(t, Object{"ensemble": 3})
	conn, events := connect(t, s, "client")
	_, err := conn.Create("/mine", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	check(t, err)

	s.Post("/ensemble/kill", Object{"server": 1})
	s.Post("/ensemble/kill", Object{"server": "leader"}) // one of three is left, which serves nobody
	s.Post("/ensemble/calm", nil)

	await(t, events, zk.StateHasSession) // again: its session lives on
	checkTree(t, s, Object{"/mine": nil})
}
