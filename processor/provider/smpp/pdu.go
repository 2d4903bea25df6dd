package smpp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Commands (SMPP v3.4, 5.1.2.1). A response is its request with the highest bit set.
const (
	cmdSubmit      = 0x00000004
	cmdDeliver     = 0x00000005
	cmdUnbind      = 0x00000006
	cmdBind        = 0x00000009 // bind_transceiver
	cmdEnquire     = 0x00000015
	cmdResponse    = 0x80000000 // the bit
	cmdGenericNack = 0x80000000
)

// Lengths of a PDU. The specification has no upper one; no PDU that this package
// knows is longer than some hundred octets but for a payload of up to 64 KiB.
const (
	minPDU = 16
	maxPDU = 64 << 10
)

// Optional parameters that are read (SMPP v3.4, 5.3.2).
const (
	tagReceiptedID  = 0x001E // receipted_message_id
	tagNetworkError = 0x0423 // network_error_code
	tagPayload      = 0x0424 // message_payload
	tagMessageState = 0x0427 // message_state
)

// pdu is one unit of the protocol. What its body says depends on id.
type pdu struct {
	id, status, seq uint32
	body            []byte
}

var (
	errLength = errors.New("the length of a PDU is not from 16 octets to 64 KiB")
	errBody   = errors.New("the body of a PDU is not what its command has")
)

// readPDU reads one PDU. It reads no further than its length says, and nothing
// more when the length is wrong: what follows cannot be told.
func readPDU(r io.Reader) (pdu, error) {
	var h [minPDU]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return pdu{}, err
	}
	n := binary.BigEndian.Uint32(h[:])
	if n < minPDU || n > maxPDU {
		return pdu{}, errLength
	}
	p := pdu{id: binary.BigEndian.Uint32(h[4:]), status: binary.BigEndian.Uint32(h[8:]), seq: binary.BigEndian.Uint32(h[12:])}
	if n > minPDU {
		p.body = make([]byte, n-minPDU)
		if _, err := io.ReadFull(r, p.body); err != nil {
			return pdu{}, fmt.Errorf("a PDU was cut short: %w", err)
		}
	}
	return p, nil
}

// append writes a PDU.
func (p pdu) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(minPDU+len(p.body)))
	b = binary.BigEndian.AppendUint32(b, p.id)
	b = binary.BigEndian.AppendUint32(b, p.status)
	b = binary.BigEndian.AppendUint32(b, p.seq)
	return append(b, p.body...)
}

// tlv is an optional parameter. Those that are not known are kept too.
type tlv struct {
	tag   uint16
	value []byte
}

// bind is the body of bind_transceiver (4.1.5).
type bind struct {
	systemID, password, systemType string
	version, ton, npi              byte
	addressRange                   string
}

func (b bind) encode() []byte {
	out := appendText(nil, b.systemID)
	out = appendText(out, b.password)
	out = appendText(out, b.systemType)
	out = append(out, b.version, b.ton, b.npi)
	return appendText(out, b.addressRange)
}

// named is the body of the responses that begin with a text and may go on with
// optional parameters: the message's id in those of submit_sm and deliver_sm, the
// system's in that of a bind. One that refuses may have no body (4.4.2).
type named struct {
	text string
	tlvs []tlv
}

func (n named) encode() []byte { return appendTLVs(appendText(nil, n.text), n.tlvs) }

func decodeNamed(body []byte) (n named, err error) {
	if len(body) == 0 {
		return named{}, nil
	}
	r := reader{rest: body}
	n.text = r.text()
	n.tlvs = r.tlvs()
	return n, r.end()
}

// address is a number or name with its type and plan (5.2.5, 5.2.6).
type address struct {
	ton, npi byte
	text     string
}

// short is the body of submit_sm and deliver_sm, which are one (4.4.1, 4.6.1).
type short struct {
	serviceType              string
	source, dest             address
	esmClass, protocol       byte
	priority                 byte
	schedule, validity       string
	registered, replace      byte
	dataCoding, defaultMsgID byte
	message                  []byte // at most 254 octets
	tlvs                     []tlv
}

func (s short) encode() []byte {
	b := appendText(nil, s.serviceType)
	for _, a := range []address{s.source, s.dest} {
		b = append(b, a.ton, a.npi)
		b = appendText(b, a.text)
	}
	b = append(b, s.esmClass, s.protocol, s.priority)
	b = appendText(b, s.schedule)
	b = appendText(b, s.validity)
	b = append(b, s.registered, s.replace, s.dataCoding, s.defaultMsgID, byte(len(s.message)))
	b = append(b, s.message...)
	return appendTLVs(b, s.tlvs)
}

func decodeShort(body []byte) (s short, err error) {
	r := reader{rest: body}
	s.serviceType = r.text()
	s.source = address{r.octet(), r.octet(), r.text()}
	s.dest = address{r.octet(), r.octet(), r.text()}
	s.esmClass, s.protocol, s.priority = r.octet(), r.octet(), r.octet()
	s.schedule, s.validity = r.text(), r.text()
	s.registered, s.replace, s.dataCoding, s.defaultMsgID = r.octet(), r.octet(), r.octet(), r.octet()
	s.message = r.take(int(r.octet()))
	s.tlvs = r.tlvs()
	return s, r.end()
}

// find returns the first optional parameter of a tag.
func find(tlvs []tlv, tag uint16) ([]byte, bool) {
	for _, t := range tlvs {
		if t.tag == tag {
			return t.value, true
		}
	}
	return nil, false
}

// appendText writes a C-octet string. A NUL within would end it early: it ends there.
func appendText(b []byte, s string) []byte {
	if i := bytes.IndexByte([]byte(s), 0); i >= 0 {
		s = s[:i]
	}
	return append(append(b, s...), 0)
}

func appendTLVs(b []byte, tlvs []tlv) []byte {
	for _, t := range tlvs {
		b = binary.BigEndian.AppendUint16(b, t.tag)
		b = binary.BigEndian.AppendUint16(b, uint16(len(t.value)))
		b = append(b, t.value...)
	}
	return b
}

// reader walks a body. After the first thing that is not there, all is empty and
// end says so.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) octet() byte {
	b := r.take(1)
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

// text reads a C-octet string. Its length is bounded by the PDU's alone:
// centres exceed the specification's lengths, and nothing here depends on them.
func (r *reader) text() string {
	i := bytes.IndexByte(r.rest, 0)
	if i < 0 {
		r.bad, r.rest = true, nil
		return ""
	}
	s := string(r.rest[:i])
	r.rest = r.rest[i+1:]
	return s
}

func (r *reader) tlvs() []tlv {
	var all []tlv
	for len(r.rest) > 0 {
		h := r.take(4)
		if h == nil {
			return nil
		}
		v := r.take(int(binary.BigEndian.Uint16(h[2:])))
		if r.bad {
			return nil
		}
		all = append(all, tlv{binary.BigEndian.Uint16(h), v})
	}
	return all
}

func (r *reader) end() error {
	if r.bad || len(r.rest) > 0 {
		return errBody
	}
	return nil
}
