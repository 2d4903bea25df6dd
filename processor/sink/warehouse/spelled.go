package warehouse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/weirhq/weir/processor/recipient"
)

// mostSpelled bounds the spellings of one address that a search looks for.
const mostSpelled = 100

// spelled adds to keys the other spellings that a tenant's messages have of them: from
// before keys ignored letter case. It reads what begins alike in the table's order.
func (h History) spelled(ctx context.Context, tenant string, keys []string) ([]string, error) {
	all := slices.Clone(keys)
	for _, key := range keys {
		if !strings.Contains(key, "@") || strings.Contains(key, "://") {
			continue
		}
		where, args := []string{}, []any{tenant}
		for _, begin := range beginnings(key) {
			where, args = append(where, "startsWith(`to`, ?)"), append(args, begin)
		}
		rows, err := h.Conn.Query(ctx, "SELECT DISTINCT `to` FROM messages_by_recipient WHERE tenant = ? AND ("+strings.Join(where, " OR ")+") AND lowerUTF8(`to`) = lowerUTF8(?) LIMIT "+fmt.Sprint(mostSpelled), append(args, key)...)
		if err != nil {
			return nil, fmt.Errorf("look for other spellings of an address: %w", err)
		}
		for rows.Next() {
			var to string
			if err := rows.Scan(&to); err != nil {
				_ = rows.Close()
				return nil, fmt.Errorf("look for other spellings of an address: %w", err)
			}
			if recipient.Fold(to) == key && !slices.Contains(all, to) {
				all = append(all, to)
			}
		}
		err = rows.Err()
		_ = rows.Close()
		if err != nil {
			return nil, fmt.Errorf("look for other spellings of an address: %w", err)
		}
	}
	return all, nil
}

// beginnings are the ways in which the first three characters of a key may be
// spelled.
func beginnings(key string) []string {
	out := []string{""}
	for i, r := range []rune(key) {
		if i == 3 {
			break
		}
		n := len(out)
		for k := range n {
			if u := unicode.ToUpper(r); u != r {
				out = append(out, out[k]+string(u))
			}
			out[k] += string(r)
		}
	}
	return out
}
