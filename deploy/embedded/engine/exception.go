package engine

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// exception is a ClickHouse error: its number and its text as the engine wrote
// it ("Code: 60. DB::Exception: … (UNKNOWN_TABLE)").
type exception struct {
	code int
	text string
}

func (e *exception) Error() string { return e.text }

// Numbers of src/Common/ErrorCodes.cpp that this package raises itself.
const (
	codeNotImplemented     = 48
	codeSyntaxError        = 62
	codeUnknownSetting     = 115
	codeReadonly           = 164
	codeQueryTooLarge      = 223
	codeCannotDecompress   = 271
	codeUnknownCompression = 89
	codeEngine             = 1002 // UNKNOWN_EXCEPTION
)

// raise makes an exception in ClickHouse's form.
func raise(code int, name, format string, args ...any) *exception {
	return &exception{code, fmt.Sprintf("Code: %d. DB::Exception: %s. (%s)", code, fmt.Sprintf(format, args...), name)}
}

// parseException reads the engine's error text.
func parseException(text string) *exception {
	text = strings.TrimRight(text, "\n")
	if rest, ok := strings.CutPrefix(text, "Code: "); ok {
		if digits, _, ok := strings.Cut(rest, "."); ok {
			if code, err := strconv.Atoi(digits); err == nil && code > 0 {
				return &exception{code, text}
			}
		}
	}
	return raise(codeEngine, "UNKNOWN_EXCEPTION", "%s", text)
}

// httpStatus is the status that ClickHouse's HTTP handler answers with
// (exceptionCodeToHTTPStatus in src/Server/HTTP).
func (e *exception) httpStatus() int {
	switch e.code {
	case 194: // REQUIRED_PASSWORD
		return http.StatusUnauthorized
	case 192, 193, 195, 291, 497, 516: // users, addresses, DATABASE_ACCESS_DENIED, ACCESS_DENIED, AUTHENTICATION_FAILED
		return http.StatusForbidden
	case 36, 427, 99, 97, 62, 117, 53, 26, 27, 41, 38, 72, 6, 457, 20, 35, 42, 43, 44, 69, 70, 130, 168, 349, 131, 386, 179, 184, 215:
		// BAD_ARGUMENTS, regular expressions, SYNTAX_ERROR, INCORRECT_DATA, TYPE_MISMATCH, CANNOT_PARSE_*, BAD_QUERY_PARAMETER, arguments, aggregates
		return http.StatusBadRequest
	case 60, 46, 47, 50, 56, 81, 115, 67, 63, 73, 16, 10, 78, 75, 24, 110, 87:
		// UNKNOWN_*: table, function, identifier, type, storage, database, setting …, NO_SUCH_COLUMN_IN_TABLE
		return http.StatusNotFound
	case 159: // TIMEOUT_EXCEEDED
		return http.StatusRequestTimeout
	case codeQueryTooLarge:
		return http.StatusRequestEntityTooLarge
	case codeNotImplemented:
		return http.StatusNotImplemented
	case 209, 76: // SOCKET_TIMEOUT, CANNOT_OPEN_FILE
		return http.StatusServiceUnavailable
	case 381: // HTTP_LENGTH_REQUIRED
		return http.StatusLengthRequired
	}
	return http.StatusInternalServerError
}
