package schemas

// Headers on Weir's records. On weir.requests all weir-* headers are ignored but
// weir-timestamp and weir-reply, which decide nothing: anyone may write there.
// Only weir.readmit, which producers have no right to write, is trusted.
const (
	HeaderID          = "weir-id"           // the message's id, UUID
	HeaderAttempt     = "weir-attempt"      // attempts made before this record: decimal
	HeaderProvider    = "weir-provider"     // the provider chosen by admission
	HeaderDecidedAt   = "weir-decided-at"   // T of the decision, RFC 3339 with milliseconds
	HeaderDueAt       = "weir-due-at"       // not before this time, RFC 3339 with milliseconds
	HeaderTimestamp   = "weir-timestamp"    // the producer's own time of the request, RFC 3339
	HeaderError       = "weir-error"        // why it came here, for people
	HeaderReason      = "weir-reason"       // why it came here, for code: Reason…
	HeaderRequestKey  = "weir-request-key"  // the request's own record key, where it is not the canonical recipient
	HeaderOrigin      = "weir-origin"       // topic/partition/offset of the request
	HeaderTraceParent = "traceparent"       // W3C trace context, passed on
	HeaderKey         = "weir-key"          // canonical recipient; never canonicalised again
	HeaderPlace       = "weir-place"        // JSON array of Charge: what the message holds
	HeaderAcceptedAt  = "weir-accepted-at"  // broker's append time of the request, RFC 3339 with milliseconds
	HeaderReturn      = "weir-return"       // on delay topics: the topic the record goes back to
	HeaderTurn        = "weir-turn"         // of a deferred message that comes back before its turn: when that is, RFC 3339 with milliseconds
	HeaderTaint       = "weir-taint"        // "received" (may have been received) or "unknown" (an attempt's outcome is unknown)
	HeaderExpiresAt   = "weir-expires-at"   // RFC 3339 with milliseconds
	HeaderPriority    = "weir-priority"     // urgent | normal | bulk, as decided
	HeaderRevision    = "weir-revision"     // policy revision of the decision, decimal
	HeaderRedriveOf   = "weir-redrive-of"   // id of the message this one sends again
	HeaderLastError   = "weir-last-error"   // the last attempt's error code
	HeaderTried       = "weir-tried"        // providers tried and how each attempt ended, the last one last: name=outcome, with commas between
	HeaderTenant      = "weir-tenant"       // the tenant as decided
	HeaderRound       = "weir-round"        // JSON object Round: what a message has still to be charged, and has been, on its way round the owners
	HeaderRestore     = "weir-restore"      // JSON array of Charge: old places that an unwind puts back
	HeaderCallbackURL = "weir-callback-url" // the request's own callback_url
	HeaderCallback    = "weir-callback"     // JSON object: which callback waits, and since when (processor/callback)
	HeaderValueBytes  = "weir-value-bytes"  // of a record of weir.dlq that has only the beginning of its bytes: how many the value had, decimal
	HeaderValueSHA256 = "weir-value-sha256" // and its SHA-256, hexadecimal
	HeaderRestBytes   = "weir-rest-bytes"   // and how many its key and the producer's headers had, decimal
	HeaderCallBy      = "weir-call-by"      // on dispatch topics: until when the message may be called on its decision, Unix milliseconds
	HeaderStale       = "weir-stale"        // of a message that is decided again because it went stale: how often, decimal (Envelope.Stale)
	HeaderOutcome     = "weir-outcome"      // on a lane's record of weir.status: what the journal says came of the attempt, and "received" behind it where the recipient may have the message
	HeaderJournal     = "weir-journal"      // on a lane's record of weir.status: the record of its journal from which it follows, as lane/seq (JournalRecord)
	HeaderReply       = "weir-reply"        // partition/correlation of weir.replies: who waits for the first decision. Of requests too
)

// MaxHeaderBytes bounds the key and the headers of a request over Kafka, together with
// its value (MaxRequestBytes): what Weir adds to them on a message's way still fits into
// a record.
const MaxHeaderBytes = 512 << 10

// MaxBatchBytes is how large a batch may be once it is decompressed. Weir's own have at
// most 8 MiB, its largest record; any producer can write one of a few kilobytes that
// decompresses to gigabytes. A batch beyond the bound is never read, by anyone: it is
// skipped where that is safe, and counted.
const MaxBatchBytes = 16 << 20

// Reasons on weir.readmit: what admission is asked to do.
const (
	ReadmitForward  = "forward"   // misrouted: the key belongs to the partition it was sent to
	ReadmitDue      = "due"       // a scheduled or deferred message whose time has come
	ReadmitRetry    = "retry"     // a further attempt after a transient or unknown outcome
	ReadmitStale    = "stale"     // the time of its decision (weir-call-by) was over before its turn
	ReadmitReroute  = "reroute"   // its provider takes no calls now, or left the policy: it was not called
	ReadmitGiveBack = "give_back" // the message ended without being received: return its places
	ReadmitCharge   = "charge"    // to the owner of a wide limit: take places in it for a message, and send it on
	ReadmitCharged  = "charged"   // home again from the owners, with places or a refusal
	ReadmitUnwind   = "unwind"    // to an owner: the message does not go on, so what its round took is returned
	ReadmitRedrive  = "redrive"   // a message given up on, sent again as a new one
	ReadmitQuota    = "quota"     // a question for what is left, answered through weir.replies
)
