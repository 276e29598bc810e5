// Two clients add 1 to a number. Each reads it and writes it if nobody else has, and tries again if the
// connection is lost. pyzk-sweep finds the run in which that is wrong:
//
//	go build increment.go && pyzk-sweep -- ./increment
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

type silent struct{}

func (silent) Printf(string, ...interface{}) {}

func connect(variable string) *zk.Conn {
	conn, _, err := zk.Connect(strings.Split(os.Getenv(variable), ","), 10*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	return conn
}

func increment(conn *zk.Conn) {
	for {
		data, stat, err := conn.Get("/number")
		if err == zk.ErrNoNode {
			_, err = conn.Create("/number", []byte("1"), 0, zk.WorldACL(zk.PermAll))
		} else if err == nil {
			number, _ := strconv.Atoi(string(data))
			_, err = conn.Set("/number", []byte(strconv.Itoa(number+1)), stat.Version)
		}
		if err == nil {
			return
		}
		if err == zk.ErrSessionExpired {
			os.Exit(75) // it has given up; the number is not known
		}
	}
}

func main() {
	done := make(chan bool)
	clients := []*zk.Conn{connect("ZOOKEEPER_HOSTS_A"), connect("ZOOKEEPER_HOSTS_B")}
	for _, client := range clients {
		go func(conn *zk.Conn) {
			increment(conn)
			done <- true
		}(client)
	}
	<-done
	<-done
	data, _, err := clients[0].Get("/number")
	for err != nil {
		data, _, err = clients[0].Get("/number")
	}
	if string(data) != "2" {
		fmt.Printf("two increments, and the number is %s\n", data)
		os.Exit(1)
	}
}
