package aliyun

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hookjson"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
)

// shanghai is the zone of Aliyun's times: UTC+8 all year since 1991.
var shanghai = time.FixedZone("Asia/Shanghai", 8*60*60)

// layouts are the forms that times have had in Aliyun's documentation.
var layouts = []string{"2006-01-02 15:04:05", "20060102150405"}

// answered is what Aliyun wants to read, with status 200 and within 700 ms; it
// sends again, after 1, 5 and 10 minutes, what was not answered so.
// https://help.aliyun.com/zh/sms/developer-reference/receipt-message-faq
var answered = provider.Reply{Status: http.StatusOK, ContentType: "application/json; charset=utf-8", Body: []byte(`{"code":0,"msg":"成功"}`)}

// poster is what Aliyun sends of itself: SmsReport and SmsUp by HTTP. It needs
// settings.receipt_secret: Aliyun signs nothing. The console tries an address with GET
// before it takes it: https://help.aliyun.com/zh/document_detail/3041841.html
var poster = &hookjson.Poster[report, up]{Settings: settings, Answered: answered, Tries: true, Receipt: receiptOf, Inbound: inboundOf}

// report is one of SmsReport's. https://help.aliyun.com/document_detail/101867.html
type report struct {
	ReportTime hookjson.Text `json:"report_time"`
	Success    hookjson.Text `json:"success"`
	ErrCode    hookjson.Text `json:"err_code"`
	BizID      hookjson.Text `json:"biz_id"`
	OutID      hookjson.Text `json:"out_id"`
}

// receiptOf reads one report. It tells nothing where the carrier has said nothing,
// which is no mistake.
func receiptOf(name string, r report, came time.Time) (receipt provider.Receipt, tells bool, err error) {
	ref, bad := provider.ParseReference(string(r.OutID))
	receipt = provider.Receipt{Provider: name}
	if bad == nil {
		receipt = ref.Receipt(name)
	}
	receipt.ProviderMessageID = httpcall.ID(string(r.BizID))
	if bad != nil && receipt.ProviderMessageID == "" {
		return receipt, false, errors.New("neither biz_id nor an out_id of Weir's")
	}
	code := string(r.ErrCode)
	row, ok := codes.OfReceipt(code)
	switch {
	case r.Success == "true":
		receipt.Status = schemas.StatusDelivered
	case r.Success != "false":
		return receipt, false, errors.New("success is neither true nor false")
	case ok && row.Kind == "":
		return receipt, false, nil
	default:
		receipt.Status = schemas.StatusUndelivered
		receipt.Text = row.Means
		receipt.Suppress = row.Suppress
		receipt.Code = provider.CodeText(code)
	}
	receipt.At = schemas.MillisOf(when(string(r.ReportTime), came))
	return receipt, true, nil
}

// up is one of SmsUp's. https://help.aliyun.com/zh/sms/developer-reference/smsup-http
type up struct {
	PhoneNumber hookjson.Text `json:"phone_number"`
	SendTime    hookjson.Text `json:"send_time"`
	Content     hookjson.Text `json:"content"`
	DestCode    hookjson.Text `json:"dest_code"`
	SequenceID  hookjson.Text `json:"sequence_id"`
}

func inboundOf(u up, came time.Time) (m provider.Inbound, tells bool, err error) {
	from, err := mainland(string(u.PhoneNumber))
	if err != nil {
		return provider.Inbound{}, false, err
	}
	return provider.Inbound{
		ID: httpcall.ID(string(u.SequenceID)), From: from, To: string(u.DestCode), Channel: schemas.ChannelSMS,
		Text: string(u.Content), At: when(string(u.SendTime), came),
	}, true, nil
}

// mainland is the recipient of a number that a reply came from. Only numbers of the
// mainland can reply, and Aliyun writes them without their country's code.
func mainland(number string) (string, error) {
	number = strings.TrimPrefix(strings.TrimPrefix(number, "+"), "00")
	if len(number) == len("8613800000000") {
		number = strings.TrimPrefix(number, "86")
	}
	r, err := recipient.Canonical(schemas.ChannelSMS, "+86"+number, "")
	if err != nil {
		return "", errors.New("phone_number is not a number of the mainland") // the error of its own may quote it
	}
	return r.Key, nil
}

// when reads a time of Aliyun's; without one it is when the request came.
func when(s string, came time.Time) time.Time {
	for _, layout := range layouts {
		if t, err := time.ParseInLocation(layout, s, shanghai); err == nil {
			return t
		}
	}
	return came
}
