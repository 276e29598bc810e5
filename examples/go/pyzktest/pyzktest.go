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

// A Server ends with its test. Its methods, for the goroutine of the test alone, fail the test if they fail.
type Server struct {
	Hosts, URL string
	t          testing.TB
}

// An Object is the body of a call, in JSON.
type Object map[string]any

// An Answer has what any of the calls answers. Add what you need.
type Answer struct {
	Server, Fault, Fired, Snapshot   int
	Hosts, Message, Timeline, Detail string
}

var (
	start    sync.Once
	startErr error
	mainURL  = os.Getenv("PYZK_URL")
	command  *exec.Cmd // kept, or else the garbage collector closes its standard input, which ends it
)

// New starts a server. Options: {"config": {"tickTime": 100}, "clock": "frozen"}, with keys of zoo.cfg.
func New(t testing.TB, options Object) *Server {
	t.Helper()
	start.Do(launch)
	if startErr != nil {
		t.Fatal("pyzk-server has not started; standard error may say why: ", startErr)
	}
	main := &Server{URL: strings.TrimSuffix(mainURL, "/"), t: t}
	made := main.Post("/servers", options)
	s := &Server{made.Hosts, "http://" + made.Hosts, t}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Call("GET", "/timeline?format=json", nil).Timeline)
		}
		main.Call("DELETE", fmt.Sprint("/servers/", made.Server), nil)
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
	request, err := http.NewRequest(method, s.URL+"/api/v1"+path, bytes.NewReader(encoded))
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
