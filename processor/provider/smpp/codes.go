package smpp

import (
	"fmt"

	"github.com/weirhq/weir/processor/provider"
)

// codes is what a command_status means. The specification says what each is; which
// of them a second try can mend is this table's judgement. A centre that answers a
// submit_sm with an error has not taken it, but for those that say that they do
// not know themselves.
var codes = provider.Codes{
	Sources: []provider.Source{
		{Title: "Short Message Peer to Peer Protocol Specification v3.4, Issue 1.2, section 5.1.3 (command_status)", URL: "https://smpp.org/SMPP_v3_4_Issue1_2.pdf#page=112"},
		{Title: "The same, section 5.2.28 (message_state) and Appendix B (delivery receipts)", URL: "https://smpp.org/SMPP_v3_4_Issue1_2.pdf#page=167"},
	},
	Send: []provider.Code{
		{Code: "ESME_RINVMSGLEN", Kind: provider.Permanent, Means: "0x01: the message is too long for the centre"},
		{Code: "ESME_RINVCMDLEN", Kind: provider.Permanent, Means: "0x02: the centre cannot read the request"},
		{Code: "ESME_RINVCMDID", Kind: provider.Permanent, Means: "0x03: the centre does not know the command"},
		{Code: "ESME_RINVBNDSTS", Kind: provider.Transient, Means: "0x04: the session may not send: it is not bound, or not as a transmitter"},
		{Code: "ESME_RALYBND", Kind: provider.Transient, Means: "0x05: already bound"},
		{Code: "ESME_RINVPRTFLG", Kind: provider.Permanent, Means: "0x06: invalid priority flag"},
		{Code: "ESME_RINVREGDLVFLG", Kind: provider.Permanent, Means: "0x07: the centre gives no receipts of this kind (settings.registered_delivery)"},
		{Code: "ESME_RSYSERR", Kind: provider.Transient, MayBeReceived: true, Means: "0x08: a fault within the centre"},
		{Code: "ESME_RINVSRCADR", Kind: provider.Permanent, Means: "0x0A: invalid sender"},
		{Code: "ESME_RINVDSTADR", Kind: provider.Permanent, OfRecipient: true, Means: "0x0B: invalid recipient"},
		{Code: "ESME_RBINDFAIL", Kind: provider.Transient, Means: "0x0D: the bind was refused"},
		{Code: "ESME_RINVPASWD", Kind: provider.Transient, Means: "0x0E: the bind was refused: wrong password"},
		{Code: "ESME_RINVSYSID", Kind: provider.Transient, Means: "0x0F: the bind was refused: unknown system_id"},
		{Code: "ESME_RMSGQFUL", Kind: provider.Throttled, OfProvider: true, Means: "0x14: the centre's queue is full"},
		{Code: "ESME_RINVSERTYP", Kind: provider.Permanent, Means: "0x15: invalid service type"},
		{Code: "ESME_RINVESMCLASS", Kind: provider.Permanent, Means: "0x43: the centre takes no user data headers, so no message in parts"},
		{Code: "ESME_RSUBMITFAIL", Kind: provider.Transient, Means: "0x45: the centre could not take the message"},
		{Code: "ESME_RINVSRCTON", Kind: provider.Permanent, Means: "0x48: wrong type of the sender's number (settings.source_ton)"},
		{Code: "ESME_RINVSRCNPI", Kind: provider.Permanent, Means: "0x49: wrong plan of the sender's number (settings.source_npi)"},
		{Code: "ESME_RINVDSTTON", Kind: provider.Permanent, Means: "0x50: wrong type of the recipient's number (settings.dest_ton)"},
		{Code: "ESME_RINVDSTNPI", Kind: provider.Permanent, Means: "0x51: wrong plan of the recipient's number (settings.dest_npi)"},
		{Code: "ESME_RINVSYSTYP", Kind: provider.Transient, Means: "0x53: the bind was refused: wrong system_type"},
		{Code: "ESME_RTHROTTLED", Kind: provider.Throttled, OfProvider: true, Means: "0x58: too many messages"},
		{Code: "ESME_RINVSCHED", Kind: provider.Permanent, Means: "0x61: invalid delivery time"},
		{Code: "ESME_RINVEXPIRY", Kind: provider.Permanent, Means: "0x62: invalid validity period (settings.validity_period)"},
		{Code: "ESME_RX_T_APPN", Kind: provider.Transient, Means: "0x64: a passing fault of the receiver"},
		{Code: "ESME_RX_P_APPN", Kind: provider.Permanent, Means: "0x65: a lasting fault of the receiver"},
		{Code: "ESME_RX_R_APPN", Kind: provider.Permanent, Means: "0x66: the receiver refused the message"},
		{Code: "ESME_RINVOPTPARSTREAM", Kind: provider.Permanent, Means: "0xC0: the centre cannot read the optional parameters"},
		{Code: "ESME_ROPTPARNOTALLWD", Kind: provider.Permanent, Means: "0xC1: an optional parameter is not allowed"},
		{Code: "ESME_RINVPARLEN", Kind: provider.Permanent, Means: "0xC2: the length of a parameter is wrong"},
		{Code: "ESME_RMISSINGOPTPARAM", Kind: provider.Permanent, Means: "0xC3: an optional parameter is missing"},
		{Code: "ESME_RINVOPTPARAMVAL", Kind: provider.Permanent, Means: "0xC4: the value of an optional parameter is wrong"},
		{Code: "ESME_RDELIVERYFAILURE", Kind: provider.Transient, OfRecipient: true, MayBeReceived: true, Means: "0xFE: the delivery failed"},
		{Code: "ESME_RUNKNOWNERR", Kind: provider.Transient, MayBeReceived: true, Means: "0xFF: the centre does not know what failed"},
	},
	// Codes of the centre's own, from 0x400 on, are refusals; settings.map says more.
	Else: provider.Code{Kind: provider.Transient, Means: "the centre refused with a code of its own (settings.map can say what it means)"},
	Receipt: []provider.Code{
		{Code: "DELIVRD", Kind: provider.Accepted, Means: "state 2: delivered"},
		{Code: "EXPIRED", Kind: provider.Permanent, Means: "state 3: not delivered within its time"},
		{Code: "DELETED", Kind: provider.Permanent, Means: "state 4: deleted at the centre"},
		{Code: "UNDELIV", Kind: provider.Permanent, Means: "state 5: cannot be delivered"},
		{Code: "REJECTD", Kind: provider.Permanent, Means: "state 8: rejected"},
		{Code: "ENROUTE", Means: "state 1: on its way"},
		{Code: "ACCEPTD", Means: "state 6: somebody read it at the centre on the recipient's behalf"},
		{Code: "UNKNOWN", Means: "state 7: the centre does not know"},
	},
}

// statuses are the names of command_status (5.1.3).
var statuses = map[uint32]string{
	0x01: "ESME_RINVMSGLEN", 0x02: "ESME_RINVCMDLEN", 0x03: "ESME_RINVCMDID", 0x04: "ESME_RINVBNDSTS", 0x05: "ESME_RALYBND",
	0x06: "ESME_RINVPRTFLG", 0x07: "ESME_RINVREGDLVFLG", 0x08: "ESME_RSYSERR", 0x0a: "ESME_RINVSRCADR", 0x0b: "ESME_RINVDSTADR",
	0x0d: "ESME_RBINDFAIL", 0x0e: "ESME_RINVPASWD", 0x0f: "ESME_RINVSYSID", 0x14: "ESME_RMSGQFUL", 0x15: "ESME_RINVSERTYP",
	0x43: "ESME_RINVESMCLASS", 0x45: "ESME_RSUBMITFAIL", 0x48: "ESME_RINVSRCTON", 0x49: "ESME_RINVSRCNPI", 0x50: "ESME_RINVDSTTON",
	0x51: "ESME_RINVDSTNPI", 0x53: "ESME_RINVSYSTYP", 0x58: "ESME_RTHROTTLED", 0x61: "ESME_RINVSCHED", 0x62: "ESME_RINVEXPIRY",
	0x64: "ESME_RX_T_APPN", 0x65: "ESME_RX_P_APPN", 0x66: "ESME_RX_R_APPN", 0xc0: "ESME_RINVOPTPARSTREAM", 0xc1: "ESME_ROPTPARNOTALLWD",
	0xc2: "ESME_RINVPARLEN", 0xc3: "ESME_RMISSINGOPTPARAM", 0xc4: "ESME_RINVOPTPARAMVAL", 0xfe: "ESME_RDELIVERYFAILURE", 0xff: "ESME_RUNKNOWNERR",
}

// Statuses that this package gives to the centre.
const (
	statusOK         = 0x00
	statusInvalidCmd = 0x03 // ESME_RINVCMDID
	statusNotBound   = 0x04 // ESME_RINVBNDSTS
	statusTemporary  = 0x64 // ESME_RX_T_APPN: send it again later
	statusNotForUs   = 0x66 // ESME_RX_R_APPN: do not

)

// codeOf is a status as people look it up.
func codeOf(status uint32) string {
	if name, ok := statuses[status]; ok {
		return name
	}
	return fmt.Sprintf("0x%08X", status)
}

// states are the values of message_state (5.2.28) by the words of Appendix B.
var states = map[byte]string{1: "ENROUTE", 2: "DELIVRD", 3: "EXPIRED", 4: "DELETED", 5: "UNDELIV", 6: "ACCEPTD", 7: "UNKNOWN", 8: "REJECTD"}
