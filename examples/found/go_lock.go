// The lock of the Go client waits for itself: samuel/go-zookeeper#229, open since 2020. go-zookeeper/zk has the
// same lines.
//
//	go build go_lock.go && pyzk-sweep --clients a --orders none --patience 3 -- ./go_lock
//
// Lock creates its znode, loses the connection while it reads the others, returns an error and forgets the
// path. The second Lock of the same client waits for the znode of the first, which lasts as long as the session.
package main

import (
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

type silent struct{}

func (silent) Printf(string, ...interface{}) {}

func main() {
	hosts := strings.Split(os.Getenv("ZOOKEEPER_HOSTS_A"), ",")
	conn, _, err := zk.Connect(hosts, 10*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		panic(err)
	}
	lock := zk.NewLock(conn, "/lock", zk.WorldACL(zk.PermAll))
	for lock.Lock() != nil { // the connection is lost: try again
	}
	lock.Unlock()
}
