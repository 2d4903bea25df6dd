package legacy

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Refusal is the message of a refusal by a limit: which window was full, as the
// status event names it (200/60s). The windows that this API can show are said
// as the old system said them, others in the same form.
func Refusal(window string) string {
	w, err := schemas.ParseWindow(window)
	if err != nil {
		return "超出请求限制"
	}
	return fmt.Sprintf("超出%s请求限制 (%d)", per(w), w.N)
}

// per says in which time a window allows its number.
func per(w schemas.Window) string {
	switch w.Kind {
	case schemas.WindowRolling:
		if i := slices.Index(schemas.LegacyWindows, w.Length); i >= 0 {
			return [...]string{"每秒", "每分钟", "每小时"}[i]
		}
		for _, u := range []struct {
			length time.Duration
			name   string
		}{{24 * time.Hour, "天"}, {time.Hour, "小时"}, {time.Minute, "分钟"}, {time.Second, "秒"}, {time.Millisecond, "毫秒"}} {
			if n := w.Length / u.length; w.Length%u.length == 0 {
				return fmt.Sprintf("每%d%s", n, u.name)
			}
		}
	case schemas.WindowCalendar:
		return map[string]string{"minute": "每自然分钟", "hour": "每自然小时", "day": "每日", "month": "每月"}[w.Unit]
	case schemas.WindowBucket:
		return "速率桶"
	}
	return ""
}
