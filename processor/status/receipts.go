package status

import (
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// ReasonReceipt is the reason of every amendment.
const ReasonReceipt = "receipt"

// Event returns the amendment of a receipt; false when its status is none that
// a receipt can bring, or it names no message.
func Event(r provider.Receipt) (schemas.Event, bool) {
	if r.Status != schemas.StatusDelivered && r.Status != schemas.StatusUndelivered || r.MessageID == "" || r.To == "" {
		return schemas.Event{}, false
	}
	if r.At == 0 {
		r.At = schemas.MillisOf(time.Now())
	}
	return schemas.Event{
		Kind: schemas.KindStatus, MessageID: r.MessageID, Tenant: r.Tenant, Channel: string(r.Channel), Class: r.Class,
		Template: r.Template, To: r.To, Status: r.Status, At: r.At, Reason: ReasonReceipt, Attempt: r.Attempt,
		Provider: r.Provider, ProviderMessageID: r.ProviderMessageID, ErrorCode: r.Code, Error: r.Text,
	}, true
}
