package engine

import (
	"encoding/binary"
	"strings"
)

// displayName is what the engine calls itself. The engine's own word would be
// the machine's name.
const displayName = "weir"

// isHandshake recognises the statement with which clickhouse-go opens a
// connection over HTTP.
func isHandshake(sql string) bool {
	words := strings.Join(strings.Fields(strings.ToLower(sql)), "")
	return strings.TrimSuffix(words, ";") == "selectdisplayname(),version(),revision(),timezone()"
}

// handshake is the answer to it: one row in the Native format as of revision
// 54460, which says that this server's revision is 0. The engine writes Native
// as of 0 whatever the client asks for, and a client that has read this
// believes it; this one block the client reads as of its own revision.
func handshake(version, zone string) []byte {
	var b []byte
	// BlockInfo: 1 is_overflows, 2 bucket_num, 0 ends it.
	b = append(b, 1, 0, 2)
	b = binary.LittleEndian.AppendUint32(b, 0xffffffff)
	b = append(b, 0)
	b = append(b, 4, 1) // columns, rows
	column := func(name, kind string, value []byte) {
		b = appendString(b, name)
		b = appendString(b, kind)
		b = append(b, 0) // no custom serialization, since 54454
		b = append(b, value...)
	}
	column("displayName()", "String", appendString(nil, displayName))
	column("version()", "String", appendString(nil, version))
	column("revision()", "UInt32", make([]byte, 4))
	column("timezone()", "String", appendString(nil, zone))
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
