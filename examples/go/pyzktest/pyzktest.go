// Package pyzktest gives each test a fresh ZooKeeper server. All servers run in one process: the one at
// PYZK_URL, or a pyzk-server (from the PATH) that is started at first use and ends with the test binary.
package pyzktest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// A Server, or an ensemble, ends with its test. Its methods, for the goroutine of the test alone, fail the
// test if they fail.
type Server struct {
	Hosts string // the connect string: strings.Split(s.Hosts, ",") for zk.Connect
	path  string // of it in the API of the process; "" is the process itself
	t     testing.TB
}

// An Object is the body of a call, in JSON.
type Object map[string]any

// An Answer has what any of the calls answers. Add what you need.
type Answer struct {
	Server, Fault, Fired, Snapshot        int
	Hosts, URL, Message, Timeline, Detail string
}

var (
	start    sync.Once
	startErr error
	mainURL  = os.Getenv("PYZK_URL")
	command  *exec.Cmd // kept, or else the garbage collector closes its standard input, which ends it
)

// New starts a server. Options: {"config": {"tickTime": 100}, "clock": "frozen"}, with keys of zoo.cfg. With
// {"ensemble": 3} it is a pretend ensemble, for the verbs of docs/ensemble.md: Post("/ensemble/kill", ...).
func New(t testing.TB, options Object) *Server {
	t.Helper()
	start.Do(launch)
	if startErr != nil {
		t.Fatal("pyzk-server has not started; standard error may say why: ", startErr)
	}
	main := &Server{t: t}
	made := main.Post("/servers", options)
	s := &Server{made.Hosts, fmt.Sprint("/servers/", made.Server), t}
	timeline := "/timeline?format=json"
	if options["ensemble"] != nil {
		timeline = "/ensemble" + timeline
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Call("GET", timeline, nil).Timeline)
		}
		main.Call("DELETE", s.path, nil)
	})
	return s
}

func launch() {
	if mainURL != "" {
		return
	}
	command = exec.Command("pyzk-server", "--port=0", "--end-with-stdin", "--log-level=warning")
	command.Stderr = os.Stderr
	command.StdinPipe()
	stdout, _ := command.StdoutPipe()
	if startErr = command.Start(); startErr == nil {
		var hosts string
		_, startErr = fmt.Fscanf(stdout, "pyzk-server is ready at %s\nHTTP at %s", &hosts, &mainURL)
	}
}

// Endpoint returns the server as some of its clients see it: its Hosts are one more address. After
// Post("/endpoints/NAME/cut", nil) these clients are cut off, however often they connect again, until
// Post("/endpoints/NAME/resume", nil); pause and delay are for them alone too.
func (s *Server) Endpoint(name string) *Server {
	s.t.Helper()
	return &Server{s.Post("/endpoints", Object{"name": name}).Hosts, s.path, s.t}
}

// Post makes a call that changes something, such as Post("/sessions/holder/expire", nil).
func (s *Server) Post(path string, body Object) Answer {
	s.t.Helper()
	return s.Call(http.MethodPost, path, body)
}

// Call makes any call of docs/http.md.
func (s *Server) Call(method, path string, body Object) (answer Answer) {
	s.t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	url := mainURL
	if s.path != "" { // ask where it is now: the first server of an ensemble may be down
		url = (&Server{t: s.t}).Call("GET", s.path, nil).URL
	}
	url = strings.TrimSuffix(url, "/") + "/api/v1" + path
	request, err := http.NewRequest(method, url, bytes.NewReader(encoded))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&answer)
	if err != nil || response.StatusCode != http.StatusOK {
		s.t.Fatalf("%s %s: %s %s", method, path, response.Status, answer.Detail)
	}
	return answer
}
