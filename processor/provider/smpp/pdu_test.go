package smpp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// vectors are PDUs that this package did not write: the example of the
// specification (SMPP v3.4, 3.2.2), and for the rest those of test/tests.hrl of
// https://github.com/K2InformaticsGmbH/smpp_parser, which says what each field is.
var vectors = []struct {
	name, octets string
	header       pdu
	body         any
}{
	{"bind_transmitter, the specification's own example, 3.2.2",
		"00 00 00 2F 00 00 00 02 00 00 00 00 00 00 00 01 53 4D 50 50 33 54 45 53 54 00 73 65 63 72 65 74 30 38 00 53 55 42 4D 49 54 31 00 00 01 01 00",
		pdu{id: 2, seq: 1}, bind{systemID: "SMPP3TEST", password: "secret08", systemType: "SUBMIT1", ton: 1, npi: 1}},
	{"bind_transceiver",
		"00 00 00 23 00 00 00 09 00 00 00 00 00 00 00 01 34 31 31 35 00 7A 75 6A 5F 34 31 31 35 00 00 34 00 00 00",
		pdu{id: cmdBind, seq: 1}, bind{systemID: "4115", password: "zuj_4115", version: 0x34}},
	{"bind_transmitter_resp with sc_interface_version",
		"00 00 00 1F 80 00 00 02 00 00 00 00 00 00 00 01 53 4D 50 50 33 54 45 53 54 00 02 10 00 01 19",
		pdu{id: 0x80000002, seq: 1}, named{text: "SMPP3TEST", tlvs: []tlv{{0x0210, []byte{0x19}}}}},
	{"submit_sm",
		`00 00 00 44 00 00 00 04 00 00 00 00 00 00 00 01 00 05 00 34 31 30 33 37 00 00 00 30 37 39 34 36 35 30 31 31 35 00
		 00 00 00 00 00 11 00 00 00 14 74 65 73 74 20 73 77 69 73 73 63 6F 6D 20 28 53 4D 50 50 29`,
		pdu{id: cmdSubmit, seq: 1}, short{source: address{5, 0, "41037"}, dest: address{0, 0, "0794650115"}, registered: 17, message: []byte("test swisscom (SMPP)")}},
	{"submit_sm with optional parameters",
		`00 00 00 51 00 00 00 04 00 00 00 00 00 00 00 01 34 31 31 35 00 01 09 31 39 32 2E 32 35 34 2E 32 35 34 2E 31 37 00
		 03 01 31 34 38 2E 32 34 37 2E 31 35 37 2E 32 35 00 03 00 00 00 00 00 00 00 00 00 02 05 00 01 04 02 04 00 02 00 03 04 26 00 01 01`,
		pdu{id: cmdSubmit, seq: 1}, short{serviceType: "4115", source: address{1, 9, "192.254.254.17"}, dest: address{3, 1, "148.247.157.25"}, esmClass: 3,
			message: []byte{}, tlvs: []tlv{{0x0205, []byte{4}}, {0x0204, []byte{0, 3}}, {0x0426, []byte{1}}}}},
	{"deliver_sm",
		`00 00 00 44 00 00 00 05 00 00 00 00 00 00 00 01 00 00 00 34 31 37 39 34 34 34 34 34 34 34 00 00 00 31 32 33 34 35 00
		 00 00 00 00 00 00 00 00 00 13 68 69 20 67 6F 74 20 79 6F 75 72 20 6D 65 73 73 61 67 65`,
		pdu{id: cmdDeliver, seq: 1}, short{source: address{0, 0, "41794444444"}, dest: address{0, 0, "12345"}, message: []byte("hi got your message")}},
	{"deliver_sm_resp", "00 00 00 11 80 00 00 05 00 00 00 00 00 00 00 01 00", pdu{id: cmdDeliver | cmdResponse, seq: 1}, named{}},
	{"submit_sm_resp with additional_status_info_text",
		`00 00 00 53 80 00 00 04 00 00 00 00 00 00 00 01 74 68 69 73 5F 63 6F 75 6C 64 5F 62 65 5F 61 5F 6D 65 73 73 61 67 65 5F 69 64 00
		 00 1D 00 1F 6D 79 5F 61 64 64 69 74 69 6F 6E 61 6C 5F 73 74 61 74 75 73 5F 69 6E 66 6F 5F 74 65 78 74 00 04 25 00 01 01`,
		pdu{id: cmdSubmit | cmdResponse, seq: 1}, named{text: "this_could_be_a_message_id", tlvs: []tlv{{0x001d, []byte("my_additional_status_info_text\x00")}, {0x0425, []byte{1}}}}},
}

// TestVectors: each is read as what it is said to be, and written as it was.
func TestVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			octets := unhex(t, v.octets)
			p, err := readPDU(bytes.NewReader(octets))
			if err != nil {
				t.Fatal(err)
			}
			body := p.body
			var got any
			var again []byte
			switch v.body.(type) {
			case bind:
				b, err2 := decodeBind(body)
				got, again, err = b, b.encode(), err2
			case named:
				b, err2 := decodeNamed(body)
				got, again, err = b, b.encode(), err2
			case short:
				b, err2 := decodeShort(body)
				got, again, err = b, b.encode(), err2
			}
			p.body = nil
			if err != nil || !reflect.DeepEqual(p, v.header) || !reflect.DeepEqual(got, v.body) {
				t.Errorf("%v\n got %+v %+v\nwant %+v %+v", err, p, got, v.header, v.body)
			}
			p.body = again
			if out := p.append(nil); !bytes.Equal(out, octets) {
				t.Errorf("written:\n%x\nwant\n%x", out, octets)
			}
		})
	}
}

// TestLengths: no PDU is read whose length is not from 16 octets to 64 KiB, and
// nothing is allocated for it.
func TestLengths(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   string
		want error
	}{
		{"nothing", "", io.EOF},
		{"half a header", "00 00 00 10 00 00", io.ErrUnexpectedEOF},
		{"shorter than its header", "00 00 00 0F 00 00 00 15 00 00 00 00 00 00 00 01", errLength},
		{"zero", "00 00 00 00 00 00 00 15 00 00 00 00 00 00 00 01", errLength},
		{"longer than 64 KiB", "00 01 00 01 00 00 00 15 00 00 00 00 00 00 00 01", errLength},
		{"4 GiB", "FF FF FF FF 00 00 00 15 00 00 00 00 00 00 00 01", errLength},
		{"text", hex.EncodeToString([]byte("HTTP/1.1 400 Bad Request\r\n")), errLength},
		{"cut short", "00 00 00 14 00 00 00 15 00 00 00 00 00 00 00 01 00 00", io.ErrUnexpectedEOF},
		{"16 octets", "00 00 00 10 00 00 00 15 00 00 00 00 00 00 00 01", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := readPDU(bytes.NewReader(unhex(t, tt.in))); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

// FuzzPDU: whatever is read whole is written as it was; the rest is an error.
func FuzzPDU(f *testing.F) {
	for _, v := range vectors {
		f.Add(unhex(f, v.octets))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := readPDU(bytes.NewReader(in))
		if err != nil {
			return
		}
		if out := p.append(nil); !bytes.Equal(out, in[:len(out)]) {
			t.Fatalf("%x\nis written\n%x", in, out)
		}
		if s, err := decodeShort(p.body); err == nil && !bytes.Equal(s.encode(), p.body) {
			t.Fatalf("a short message %x\nis written\n%x", p.body, s.encode())
		} else if err == nil {
			receiptOf(s)
			number(s.message)
			decode(s.message, s.dataCoding, alphabetGSM)
		}
		if n, err := decodeNamed(p.body); err == nil && len(p.body) > 0 && !bytes.Equal(n.encode(), p.body) {
			t.Fatalf("a response %x\nis written\n%x", p.body, n.encode())
		}
		if b, err := decodeBind(p.body); err == nil && !bytes.Equal(b.encode(), p.body) {
			t.Fatalf("a bind %x\nis written\n%x", p.body, b.encode())
		}
	})
}

// decodeBind reads what only this side writes.
func decodeBind(body []byte) (b bind, err error) {
	r := reader{rest: body}
	b = bind{r.text(), r.text(), r.text(), r.octet(), r.octet(), r.octet(), r.text()}
	return b, r.end()
}
