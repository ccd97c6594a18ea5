package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/stagepost/stagepost/bench/internal/measured"
	"github.com/stagepost/stagepost/store/postgres"
	"github.com/stagepost/stagepost/store/zookeeper"
)

// shared is an engine whose store is a server.
type shared struct {
	stagepost
	stop func() error // ends the server
}

func (p shared) close() error { return errors.Join(p.stagepost.close(), p.stop()) }

// runShared runs an engine on an opened store, and stops the server if that fails.
func runShared(store measured.Store, err error, s setting, stop func() error) (peer, error) {
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	e, err := measured.Run(store, s.callers, s.begin)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return shared{stagepost{e}, stop}, nil
}

// openStagepostPostgres has one server on the database. The pool of database only checks that commits are durable.
func openStagepostPostgres(ctx context.Context, s setting) (peer, error) {
	d, err := openPostgres(ctx, s.dir, 1)
	if err != nil {
		return nil, err
	}
	store, err := postgres.Open(ctx, databaseOf(s.dir), postgres.Options{})
	return runShared(store, err, s, d.close)
}

// databaseOf returns the connection string of the database in a directory.
func databaseOf(dir string) string { return fmt.Sprintf("host=%s user=market dbname=postgres", dir) }

func openStagepostZK(ctx context.Context, s setting) (peer, error) {
	d, address, err := openZK(ctx, s.dir)
	if err != nil {
		return nil, err
	}
	store, err := zookeeper.Open(ctx, []string{address}, zookeeper.Options{})
	return runShared(store, err, s, d.stop)
}

// jars are the libraries of ZooKeeper's server, in Debian's directory of Java libraries.
var jars = strings.Fields("zookeeper zookeeper-jute slf4j-api slf4j-simple metrics-core snappy-java netty-all")

const jarDir = "/usr/share/java"

// zkPrograms returns java, with which the server of Debian's package runs.
func zkPrograms() (string, error) {
	java, err := exec.LookPath("java")
	for _, jar := range jars {
		_, missing := os.Stat(filepath.Join(jarDir, jar+".jar"))
		err = errors.Join(err, missing)
	}
	if err != nil {
		return "", errors.New("ZooKeeper is not installed (apt-get install zookeeper)")
	}
	return java, nil
}

// openZK starts a server with its default of a sync before each answer. It has no Unix socket: it listens on a
// loopback address.
func openZK(ctx context.Context, dir string) (*daemon, string, error) {
	java, err := zkPrograms()
	if err != nil {
		return nil, "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, "", err
	}
	_, port, _ := net.SplitHostPort(address)
	file := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("tickTime=1000\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\n"+
		"admin.enableServer=false\nmaxClientCnxns=0\n", filepath.Join(dir, "zookeeper"), port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	path := make([]string, len(jars))
	for i, jar := range jars {
		path[i] = filepath.Join(jarDir, jar+".jar")
	}
	d, err := startServer(dir, syscall.SIGTERM, nil, java, "-Xmx512m", "-cp", strings.Join(path, ":"),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	if err != nil {
		return nil, "", err
	}
	if err := d.ready(ctx, func(context.Context) error { return ruok(address) }); err != nil {
		return nil, "", errors.Join(err, d.stop())
	}
	return d, address, nil
}

// ruok reports whether the server at the address accepts requests.
func ruok(address string) error {
	conn, events, err := zk.Connect([]string{address}, 5*time.Second, zk.WithLogInfo(false),
		zk.WithLogger(quietLog{}))
	if err != nil {
		return err
	}
	defer conn.Close()
	for late := time.After(2 * time.Second); ; {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return nil
			}
		case <-late:
			return errors.New("no session within 2 s")
		}
	}
}

type quietLog struct{}

// Printf is part of zk.Logger.
func (quietLog) Printf(string, ...any) {}

// bareZK writes for each commit what a transition must write: the record, which is compared, and an event. One
// multi has both.
type bareZK struct {
	server *daemon
	conn   *zk.Conn
	begin  func()
}

func openBareZK(ctx context.Context, s setting) (peer, error) {
	d, address, err := openZK(ctx, s.dir)
	if err != nil {
		return nil, err
	}
	conn, _, err := zk.Connect([]string{address}, 10*time.Second, zk.WithLogInfo(false), zk.WithLogger(quietLog{}))
	if err == nil {
		_, err = conn.Create("/bare", nil, 0, zk.WorldACL(zk.PermAll))
	}
	if err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return bareZK{d, conn, s.begin}, nil
}

func (b bareZK) do(_ context.Context, i int64) error {
	b.begin()
	acl := zk.WorldACL(zk.PermAll)
	node := fmt.Sprintf("/bare/j8_%026d", i)
	event := make([]byte, 40)
	if _, err := b.conn.Multi(&zk.CreateRequest{Path: node, Data: []byte(payload), Acl: acl},
		&zk.CreateRequest{Path: node + "/0", Data: event, Acl: acl}); err != nil {
		return err
	}
	for version := range int32(steps + 1) {
		binary.BigEndian.PutUint32(event, uint32(version))
		if _, err := b.conn.Multi(&zk.SetDataRequest{Path: node, Data: []byte(payload), Version: version},
			&zk.CreateRequest{Path: fmt.Sprint(node, "/", version+1), Data: event, Acl: acl}); err != nil {
			return err
		}
	}
	return nil
}

func (b bareZK) close() error {
	b.conn.Close()
	return b.server.stop()
}
