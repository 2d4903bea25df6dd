package replicatest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// In libchdb 26.7.3, at reading: the function that returns the address for other
// replicas finds none and throws. To find it in another build: have a replicated
// table made without the patch, and take the fifth frame of the error in the log
// ("interserver_http(s)_port").
const (
	getAddress  = 0x1417c9c7 // reads the fields below of the object that r14 comes to point to
	noAddress   = 0x1417ca3c // throws
	hostField   = 0x150      // a string of 24 bytes whose last is the length, if it is short
	portField   = 0x168      // uint16
	schemeField = 0x170      // a string
	credentials = 0x1b0      // points to two strings, the user and the password
)

var (
	// What stands at getAddress and noAddress in the build that this is for.
	reads  = []byte{0x4c, 0x8b, 0x36, 0x49, 0x0f, 0xbe, 0x8e, 0x67, 0x01, 0x00, 0x00}
	throws = []byte{0xbf, 0x80, 0x01, 0x00, 0x00}
	room   = 0x1417cab4 - noAddress
)

// giveAddress loads the library and makes the engine in this process tell 127.0.0.1 and
// a port to other replicas.
func giveAddress(lib string, port int) error {
	if _, err := purego.Dlopen(lib, purego.RTLD_NOW|purego.RTLD_LOCAL); err != nil {
		return fmt.Errorf("load %s: %w", lib, err)
	}
	base, err := loadedAt()
	if err != nil {
		return err
	}
	at := func(offset uintptr, n int) []byte { return unsafe.Slice((*byte)(unsafe.Add(base, offset)), n) }
	if !bytes.Equal(at(getAddress, len(reads)), reads) || !bytes.Equal(at(noAddress, len(throws)), throws) {
		return errors.New("this build of the engine is not the one that the patch is for: see address_linux_amd64.go")
	}
	// Two empty strings, for as long as the process lives.
	nobody, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("make room for credentials: %w", err)
	}
	code := setAddress(port, uint64(uintptr(unsafe.Pointer(&nobody[0]))))
	if len(code) > room {
		return fmt.Errorf("the patch has %d bytes and room for %d", len(code), room)
	}
	page := uintptr(os.Getpagesize())
	first := noAddress &^ (page - 1)
	text := at(first, int((noAddress+uintptr(room)-first+page-1)&^(page-1)))
	if err := syscall.Mprotect(text, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC); err != nil {
		return fmt.Errorf("make the code writable: %w", err)
	}
	copy(at(noAddress, len(code)), code)
	return syscall.Mprotect(text, syscall.PROT_READ|syscall.PROT_EXEC)
}

// setAddress is code in place of the throw: it fills the fields and goes back to
// where they are read.
func setAddress(port int, nobody uint64) []byte {
	var c []byte
	field := func(opcode []byte, offset uint32) {
		c = binary.LittleEndian.AppendUint32(append(c, opcode...), offset)
	}
	put := func(offset uint32, v uint64) { // mov rax, v; mov [r14+offset], rax
		c = binary.LittleEndian.AppendUint64(append(c, 0x48, 0xb8), v)
		field([]byte{0x49, 0x89, 0x86}, offset)
	}
	small := func(offset, v uint32) { // mov qword [r14+offset], v
		field([]byte{0x49, 0xc7, 0x86}, offset)
		c = binary.LittleEndian.AppendUint32(c, v)
	}
	text := func(offset uint32, s string) {
		var b [24]byte
		copy(b[:], s)
		b[23] = byte(len(s))
		put(offset, binary.LittleEndian.Uint64(b[:8]))
		if len(s) > 8 {
			small(offset+8, binary.LittleEndian.Uint32(b[8:12]))
		}
		put(offset+16, binary.LittleEndian.Uint64(b[16:]))
	}
	put(credentials, nobody)
	text(schemeField, "http")
	text(hostField, "127.0.0.1")
	field([]byte{0x66, 0x41, 0xc7, 0x86}, portField) // mov word [r14+offset], port
	c = binary.LittleEndian.AppendUint16(c, uint16(port))
	back := int64(getAddress) - int64(noAddress) - int64(len(c)) - 5
	c = append(c, 0xe9)
	return binary.LittleEndian.AppendUint32(c, uint32(int32(back)))
}

// loadedAt is where the library begins in this process.
func loadedAt() (unsafe.Pointer, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || filepath.Base(fields[5]) != "libchdb.so" || strings.Trim(fields[2], "0") != "" {
			continue
		}
		from, _, _ := strings.Cut(fields[0], "-")
		n, err := strconv.ParseUint(from, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("read /proc/self/maps: %w", err)
		}
		base := uintptr(n)
		return *(*unsafe.Pointer)(unsafe.Pointer(&base)), nil // no memory of Go's
	}
	return nil, errors.New("the engine's library is not loaded")
}
