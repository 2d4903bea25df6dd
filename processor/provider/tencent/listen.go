package tencent

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hookjson"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// shanghai is the zone of Tencent's times, which say none: UTC+8 all year.
var shanghai = time.FixedZone("Asia/Shanghai", 8*60*60)

// answered is what Tencent wants to read; it sends twice more what was not answered
// so. https://cloud.tencent.com/document/api/382/59178
var answered = provider.Reply{Status: http.StatusOK, ContentType: "application/json; charset=utf-8", Body: []byte(`{"result":0,"errmsg":"OK"}`)}

// poster is what Tencent calls back with. It needs settings.receipt_secret: Tencent
// signs nothing.
var poster = &hookjson.Poster[report, up]{Settings: settings, Answered: answered, Receipt: receiptOf, Inbound: inboundOf}

// report is one of the status callback's: 短信下发状态通知,
// https://cloud.tencent.com/document/api/382/59178
type report struct {
	UserReceiveTime hookjson.Text `json:"user_receive_time"`
	NationCode      hookjson.Text `json:"nationcode"`
	Mobile          hookjson.Text `json:"mobile"`
	ReportStatus    hookjson.Text `json:"report_status"`
	ErrMsg          hookjson.Text `json:"errmsg"` // the code
	SID             hookjson.Text `json:"sid"`
	Ext             hookjson.Text `json:"ext"` // SessionContext, where Tencent was asked to switch it on
}

func receiptOf(name string, r report, came time.Time) (_ provider.Receipt, tells bool, _ error) {
	receipt := provider.Receipt{Provider: name}
	ref, bad := provider.ParseReference(string(r.Ext))
	if bad == nil {
		receipt = ref.Receipt(name)
	} else if to, err := number(r.NationCode, r.Mobile); err == nil {
		receipt.To = to
	}
	receipt.ProviderMessageID = httpcall.ID(string(r.SID))
	if bad != nil && receipt.ProviderMessageID == "" {
		return receipt, false, errors.New("neither sid nor an ext of Weir's")
	}
	switch r.ReportStatus {
	case "SUCCESS":
		receipt.Status = schemas.StatusDelivered
	case "FAIL":
		receipt.Status = schemas.StatusUndelivered
		row, _ := codes.OfReceipt(string(r.ErrMsg))
		receipt.Text, receipt.Suppress = row.Means, row.Suppress
		receipt.Code = provider.CodeText(string(r.ErrMsg))
	default:
		return receipt, false, errors.New("report_status is neither SUCCESS nor FAIL")
	}
	receipt.At = schemas.MillisOf(came)
	if t, err := time.ParseInLocation(time.DateTime, string(r.UserReceiveTime), shanghai); err == nil {
		receipt.At = schemas.MillisOf(t)
	}
	return receipt, true, nil
}

// up is the reply callback's: 短信回复通知, https://cloud.tencent.com/document/api/382/59179
type up struct {
	Extend     hookjson.Text `json:"extend"`
	Mobile     hookjson.Text `json:"mobile"`
	NationCode hookjson.Text `json:"nationcode"`
	Text       hookjson.Text `json:"text"`
	Time       hookjson.Text `json:"time"` // Unix, seconds
}

// inboundOf reads one reply. Tencent gives replies no id.
func inboundOf(u up, came time.Time) (_ provider.Inbound, tells bool, _ error) {
	from, err := number(u.NationCode, u.Mobile)
	if err != nil {
		return provider.Inbound{}, false, err
	}
	in := provider.Inbound{From: from, To: string(u.Extend), Channel: schemas.ChannelSMS, Text: string(u.Text), At: came}
	if s, err := strconv.ParseInt(string(u.Time), 10, 64); err == nil && s > 0 && s < maxUnix {
		in.At = time.Unix(s, 0)
	}
	return in, true, nil
}

const maxUnix = 1 << 33 // in the year 2242: later is no time in seconds

// number is the recipient that a country's code and a number name.
func number(nation, mobile hookjson.Text) (string, error) {
	r, err := recipient.Canonical(schemas.ChannelSMS, "+"+strings.TrimPrefix(string(nation), "+")+string(mobile), "")
	if err != nil {
		return "", errors.New("nationcode and mobile are no number") // the error of its own may quote it
	}
	return r.Key, nil
}
