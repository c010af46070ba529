// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// countingListener counts the connections that it accepted.
type countingListener struct {
	net.Listener
	connections *atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.connections.Add(1)
	}
	return conn, err
}

// hang accepts connections and reads from them until the client goes.
func hang(listener net.Listener) (stop func()) {
	var (
		lock    sync.Mutex
		open    = map[net.Conn]bool{}
		stopped bool
	)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			lock.Lock()
			open[conn] = true
			if stopped {
				_ = conn.Close()
			}
			lock.Unlock()
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
				lock.Lock()
				delete(open, conn)
				lock.Unlock()
			}()
		}
	}()
	return func() {
		_ = listener.Close()
		lock.Lock()
		defer lock.Unlock()
		stopped = true
		for conn := range open {
			_ = conn.Close()
		}
	}
}

// reservePort binds a port without listening on it: connections are refused, and nobody else gets the port.
func reservePort() (address string, release func(), err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return "", nil, fmt.Errorf("reserving a port: %w", err)
	}
	syscall.CloseOnExec(fd)
	release = func() { _ = syscall.Close(fd) }
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		release()
		return "", nil, fmt.Errorf("reserving a port: %w", err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		release()
		return "", nil, fmt.Errorf("reserving a port: %w", err)
	}
	inet, ok := bound.(*syscall.SockaddrInet4)
	if !ok {
		release()
		return "", nil, fmt.Errorf("reserving a port: %T is no IPv4 address", bound)
	}
	return fmt.Sprintf("127.0.0.1:%d", inet.Port), sync.OnceFunc(release), nil
}
