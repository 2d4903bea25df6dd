package engine

import (
	"cmp"
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
	codeQueryTooLarge      = 229
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

// httpStatuses are what ClickHouse's HTTP interface answers with, where it is
// not 500 (exceptionCodeToHTTPStatus.cpp).
var httpStatuses = map[int]int{
	192: http.StatusForbidden,             // UNKNOWN_USER
	193: http.StatusForbidden,             // WRONG_PASSWORD
	497: http.StatusForbidden,             // ACCESS_DENIED
	512: http.StatusForbidden,             // SET_NON_GRANTED_ROLE
	516: http.StatusForbidden,             // AUTHENTICATION_FAILED
	6:   http.StatusBadRequest,            // CANNOT_PARSE_TEXT
	8:   http.StatusBadRequest,            // THERE_IS_NO_COLUMN
	15:  http.StatusBadRequest,            // DUPLICATE_COLUMN
	25:  http.StatusBadRequest,            // CANNOT_PARSE_ESCAPE_SEQUENCE
	26:  http.StatusBadRequest,            // CANNOT_PARSE_QUOTED_STRING
	27:  http.StatusBadRequest,            // CANNOT_PARSE_INPUT_ASSERTION_FAILED
	36:  http.StatusBadRequest,            // BAD_ARGUMENTS
	37:  http.StatusBadRequest,            // UNKNOWN_ELEMENT_IN_AST
	38:  http.StatusBadRequest,            // CANNOT_PARSE_DATE
	41:  http.StatusBadRequest,            // CANNOT_PARSE_DATETIME
	44:  http.StatusBadRequest,            // ILLEGAL_COLUMN
	53:  http.StatusBadRequest,            // TYPE_MISMATCH
	62:  http.StatusBadRequest,            // SYNTAX_ERROR
	72:  http.StatusBadRequest,            // CANNOT_PARSE_NUMBER
	117: http.StatusBadRequest,            // INCORRECT_DATA
	123: http.StatusBadRequest,            // UNKNOWN_TYPE_OF_AST_NODE
	167: http.StatusBadRequest,            // TOO_DEEP_AST
	168: http.StatusBadRequest,            // TOO_BIG_AST
	223: http.StatusBadRequest,            // UNEXPECTED_AST_STRUCTURE
	321: http.StatusBadRequest,            // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
	376: http.StatusBadRequest,            // CANNOT_PARSE_UUID
	427: http.StatusBadRequest,            // CANNOT_COMPILE_REGEXP
	441: http.StatusBadRequest,            // CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING
	675: http.StatusBadRequest,            // CANNOT_PARSE_IPV4
	676: http.StatusBadRequest,            // CANNOT_PARSE_IPV6
	46:  http.StatusNotFound,              // UNKNOWN_FUNCTION
	47:  http.StatusNotFound,              // UNKNOWN_IDENTIFIER
	50:  http.StatusNotFound,              // UNKNOWN_TYPE
	56:  http.StatusNotFound,              // UNKNOWN_STORAGE
	60:  http.StatusNotFound,              // UNKNOWN_TABLE
	63:  http.StatusNotFound,              // UNKNOWN_AGGREGATE_FUNCTION
	73:  http.StatusNotFound,              // UNKNOWN_FORMAT
	78:  http.StatusNotFound,              // UNKNOWN_TYPE_OF_QUERY
	81:  http.StatusNotFound,              // UNKNOWN_DATABASE
	115: http.StatusNotFound,              // UNKNOWN_SETTING
	152: http.StatusNotFound,              // UNKNOWN_DIRECTION_OF_SORTING
	336: http.StatusNotFound,              // UNKNOWN_DATABASE_ENGINE
	511: http.StatusNotFound,              // UNKNOWN_ROLE
	229: http.StatusRequestEntityTooLarge, // QUERY_IS_TOO_LARGE
	48:  http.StatusNotImplemented,        // NOT_IMPLEMENTED
	76:  http.StatusServiceUnavailable,    // CANNOT_OPEN_FILE
	209: http.StatusServiceUnavailable,    // SOCKET_TIMEOUT
	439: http.StatusServiceUnavailable,    // CANNOT_SCHEDULE_TASK
	159: http.StatusRequestTimeout,        // TIMEOUT_EXCEEDED
}

func (e *exception) httpStatus() int {
	return cmp.Or(httpStatuses[e.code], http.StatusInternalServerError)
}
