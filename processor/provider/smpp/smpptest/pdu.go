package smpptest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf16"
)

// Submit is a submit_sm as it was understood.
type Submit struct {
	Sequence                       uint32
	ServiceType                    string
	SourceTON, SourceNPI           byte
	Source                         string
	DestTON, DestNPI               byte
	Dest                           string
	ESMClass, ProtocolID, Priority byte
	Schedule, Validity             string
	Registered, Replace            byte
	Coding, DefaultMsgID           byte
	Message                        []byte
}

func pdu(command, status, sequence uint32, body []byte) []byte {
	b := make([]byte, 16, 16+len(body))
	for i, v := range []uint32{uint32(16 + len(body)), command, status, sequence} {
		binary.BigEndian.PutUint32(b[4*i:], v)
	}
	return append(b, body...)
}

// TLV is an optional parameter.
func TLV(tag uint16, value string) []byte {
	b := binary.BigEndian.AppendUint16(nil, tag)
	b = binary.BigEndian.AppendUint16(b, uint16(len(value)))
	return append(b, value...)
}

// Short is a deliver_sm's body.
func Short(from, to string, esmClass, coding byte, message []byte, tlvs ...[]byte) []byte {
	b := []byte{0, 1, 1}
	b = append(append(b, from...), 0, 1, 1)
	b = append(append(b, to...), 0, esmClass, 0, 0, 0, 0, 0, 0, coding, 0, byte(len(message)))
	b = append(b, message...)
	for _, t := range tlvs {
		b = append(b, t...)
	}
	return b
}

func parseSubmit(sequence uint32, b []byte) (s Submit, err error) {
	s.Sequence = sequence
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("cut short")
		}
	}()
	text := func() string {
		i := strings.IndexByte(string(b), 0)
		out := string(b[:i])
		b = b[i+1:]
		return out
	}
	octet := func() byte {
		out := b[0]
		b = b[1:]
		return out
	}
	s.ServiceType = text()
	s.SourceTON, s.SourceNPI, s.Source = octet(), octet(), text()
	s.DestTON, s.DestNPI, s.Dest = octet(), octet(), text()
	s.ESMClass, s.ProtocolID, s.Priority = octet(), octet(), octet()
	s.Schedule, s.Validity = text(), text()
	s.Registered, s.Replace, s.Coding, s.DefaultMsgID = octet(), octet(), octet(), octet()
	n := int(octet())
	s.Message = append([]byte(nil), b[:n]...)
	if len(b) != n {
		return s, fmt.Errorf("%d octets too many", len(b)-n)
	}
	return s, nil
}

// fields reads C-octet strings.
func fields(b []byte, names ...string) map[string]string {
	out := make(map[string]string)
	for _, n := range names {
		v, rest, ok := strings.Cut(string(b), "\x00")
		if !ok {
			return out
		}
		out[n], b = v, []byte(rest)
	}
	return out
}

// header returns what a submit's user data header says; total is 0 without one.
func header(sub Submit) (reference, total, part int, body []byte) {
	m := sub.Message
	if sub.ESMClass&0x40 == 0 {
		return 0, 0, 1, m
	}
	switch {
	case len(m) >= 6 && m[0] == 5 && m[1] == 0 && m[2] == 3:
		return int(m[3]), int(m[4]), int(m[5]), m[6:]
	case len(m) >= 7 && m[0] == 6 && m[1] == 8 && m[2] == 4:
		return int(m[3])<<8 | int(m[4]), int(m[5]), int(m[6]), m[7:]
	}
	return 0, 0, 1, m
}

func text(sub Submit) string {
	_, _, _, body := header(sub)
	return Text(body, sub.Coding)
}

// alphabet is the table of 3GPP TS 23.038, 6.2.1, one column of 16 a line.
var alphabet = []rune("@£$¥èéùìòÇ\nØø\rÅå" +
	"Δ_ΦΓΛΩΠΨΣΘΞ\x1bÆæßÉ" +
	" !\"#¤%&'()*+,-./" +
	"0123456789:;<=>?" +
	"¡ABCDEFGHIJKLMNO" +
	"PQRSTUVWXYZÄÖÑÜ§" +
	"¿abcdefghijklmno" +
	"pqrstuvwxyzäöñüà")

// Text reads a message as a phone shows it. The default alphabet is GSM's, an octet
// a septet.
func Text(b []byte, coding byte) string {
	var out strings.Builder
	switch coding {
	case 8:
		var u []uint16
		for i := 0; i+1 < len(b); i += 2 {
			u = append(u, uint16(b[i])<<8|uint16(b[i+1]))
		}
		return string(utf16.Decode(u))
	case 3:
		for _, c := range b {
			out.WriteRune(rune(c))
		}
	default:
		for i := 0; i < len(b); i++ {
			if b[i] == 0x1b && i+1 < len(b) {
				i++
				out.WriteString(map[byte]string{0x0a: "\f", 0x14: "^", 0x28: "{", 0x29: "}", 0x2f: "\\", 0x3c: "[", 0x3d: "~", 0x3e: "]", 0x40: "|", 0x65: "€"}[b[i]])
				continue
			}
			out.WriteRune(alphabet[b[i]&0x7f])
		}
	}
	return out.String()
}

var commands = map[uint32]string{
	0x00000004: "submit_sm", 0x80000004: "submit_sm_resp", 0x00000005: "deliver_sm", 0x80000005: "deliver_sm_resp",
	0x00000006: "unbind", 0x80000006: "unbind_resp", 0x00000009: "bind_transceiver", 0x80000009: "bind_transceiver_resp",
	0x00000015: "enquire_link", 0x80000015: "enquire_link_resp", 0x80000000: "generic_nack",
}

// Show is a PDU as readable text: the header, the fields of those that have any, and
// all octets.
func Show(mark string, b []byte) string {
	if len(b) < 16 || int(binary.BigEndian.Uint32(b)) != len(b) {
		return fmt.Sprintf("%s%q\n", mark, b)
	}
	var out strings.Builder
	command, status := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	fmt.Fprintf(&out, "%s%s sequence_number=%d", mark, commands[command], binary.BigEndian.Uint32(b[12:]))
	if command&0x80000000 != 0 {
		fmt.Fprintf(&out, " command_status=0x%08X", status)
	}
	switch command {
	case 0x00000009:
		f := fields(b[16:], "system_id", "password", "system_type")
		fmt.Fprintf(&out, " system_id=%q password=%q system_type=%q", f["system_id"], f["password"], f["system_type"])
	case 0x80000004, 0x80000009:
		if v, _, ok := strings.Cut(string(b[16:]), "\x00"); ok && v != "" {
			fmt.Fprintf(&out, " %s=%q", map[uint32]string{0x80000004: "message_id", 0x80000009: "system_id"}[command], v)
		}
	case 0x00000004:
		if s, err := parseSubmit(0, b[16:]); err == nil {
			fmt.Fprintf(&out, "\n%s    source=%d/%d %q dest=%d/%d %q esm_class=0x%02x registered_delivery=%d data_coding=%d", mark, s.SourceTON, s.SourceNPI, s.Source, s.DestTON, s.DestNPI, s.Dest, s.ESMClass, s.Registered, s.Coding)
			fmt.Fprintf(&out, "\n%s    sm_length=%d short_message=%q", mark, len(s.Message), text(s))
		}
	}
	out.WriteString("\n")
	if command != 0x00000009 { // the password stands above once
		for b := b; len(b) > 0; b = b[min(16, len(b)):] {
			fmt.Fprintf(&out, "%s    % x\n", mark, b[:min(16, len(b))])
		}
	}
	return out.String()
}

// Status is the number of a status by its name in the specification, 5.1.3, or as
// 0x and hexadecimal digits.
func Status(name string) uint32 {
	if s, ok := names[name]; ok {
		return s
	}
	b, err := hex.DecodeString(strings.TrimPrefix(name, "0x"))
	if err != nil || len(b) != 4 {
		return 0xff
	}
	return binary.BigEndian.Uint32(b)
}

var names = map[string]uint32{
	"ESME_RINVMSGLEN": 1, "ESME_RINVCMDLEN": 2, "ESME_RINVCMDID": 3, "ESME_RINVBNDSTS": 4, "ESME_RALYBND": 5, "ESME_RINVPRTFLG": 6,
	"ESME_RINVREGDLVFLG": 7, "ESME_RSYSERR": 8, "ESME_RINVSRCADR": 10, "ESME_RINVDSTADR": 11, "ESME_RBINDFAIL": 13, "ESME_RINVPASWD": 14,
	"ESME_RINVSYSID": 15, "ESME_RMSGQFUL": 20, "ESME_RINVSERTYP": 21, "ESME_RINVESMCLASS": 67, "ESME_RSUBMITFAIL": 69, "ESME_RINVSRCTON": 72,
	"ESME_RINVSRCNPI": 73, "ESME_RINVDSTTON": 80, "ESME_RINVDSTNPI": 81, "ESME_RINVSYSTYP": 83, "ESME_RTHROTTLED": 88, "ESME_RINVSCHED": 97,
	"ESME_RINVEXPIRY": 98, "ESME_RX_T_APPN": 100, "ESME_RX_P_APPN": 101, "ESME_RX_R_APPN": 102, "ESME_RINVOPTPARSTREAM": 192,
	"ESME_ROPTPARNOTALLWD": 193, "ESME_RINVPARLEN": 194, "ESME_RMISSINGOPTPARAM": 195, "ESME_RINVOPTPARAMVAL": 196,
	"ESME_RDELIVERYFAILURE": 254, "ESME_RUNKNOWNERR": 255,
}
