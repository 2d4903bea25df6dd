package aliyun

import (
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// codes are Aliyun's. How a row was chosen:
//
//   - What is so for every message of the account (no money left, a quota of the
//     account used up, a product or an account stopped, a wrong key, a permission that
//     is missing, a wrong clock) is transient: provider.Codes says why.
//   - A limit of one number is throttled and of the recipient: only that message waits.
//   - What is wrong with a template, a signature or a parameter is permanent.
//   - A number is suppressed where Aliyun says that its owner refused, or that it is to
//     be left out from now on; not where it may be switched off, mistyped, on a list
//     for other reasons too, or the content's fault: a suppression holds for login
//     codes too.
var codes = provider.Codes{
	Sources: []provider.Source{
		{Title: "国内消息API错误码", URL: "https://help.aliyun.com/zh/sms/developer-reference/api-error-codes"},
		{Title: "国内消息回执错误码", URL: "https://help.aliyun.com/document_detail/101347.html"},
		{Title: "什么是短信发送流控限制", URL: "https://help.aliyun.com/document_detail/2881383.html"},
		{Title: "流控的统计周期是多久", URL: "https://help.aliyun.com/document_detail/2949332.html"},
		{Title: "管控OpenAPI的客户端公用错误码", URL: "https://developer.aliyun.com/ask/278265"},
		{Title: "错误代码表 (of the gateway)", URL: "https://help.aliyun.com/document_detail/435312.html"},
	},
	Send: []provider.Code{
		{Code: codeOK, Kind: provider.Accepted, Means: "taken"},

		// Too fast.
		{Code: "Throttling*", Kind: provider.Throttled, OfProvider: true, Means: "more calls than Aliyun takes at once"},
		{Code: codeLimit, Kind: provider.Throttled, OfRecipient: true, Means: "more messages to this number than Aliyun allows in a minute, an hour or a day"},

		// Of the account: the operator mends it, and nothing is lost until then.
		{Code: "isv.AMOUNT_NOT_ENOUGH", Kind: provider.Transient, Means: "the account has no money or messages left"},
		{Code: "isv.OUT_OF_SERVICE", Kind: provider.Transient, Means: "the account is stopped: money is owed"},
		{Code: "isv.DAY_LIMIT_CONTROL", Kind: provider.Transient, Means: "the account's own limit of messages a day is reached"},
		{Code: "isv.MONTH_LIMIT_CONTROL", Kind: provider.Transient, Means: "the account's own limit of messages a month is reached"},
		{Code: "isv.ACCOUNT_ABNORMAL", Kind: provider.Transient, Means: "something is wrong with the account"},
		{Code: "isv.SECURITY_FROZEN_ACCOUNT", Kind: provider.Transient, Means: "the account was not used for long and is frozen"},
		{Code: "isv.PRODUCT_UN_SUBSCRIPT", Kind: provider.Transient, Means: "the account has not opened short messages"},
		{Code: "isv.PRODUCT_UNSUBSCRIBE", Kind: provider.Transient, Means: "the account has not opened this product"},
		{Code: "InvalidTimeStamp.*", Kind: provider.Transient, Means: "this machine's clock is over 15 minutes off"},

		// Of the keys.
		{Code: "isv.ACCOUNT_NOT_EXISTS", Kind: provider.Transient, Means: "the access key is of no account that sends"},
		{Code: "isv.DENY_IP_RANGE", Kind: provider.Transient, Means: "calls from this address's region are refused"},
		{Code: "isp.RAM_PERMISSION_DENY", Kind: provider.Transient, Means: "the access key lacks the permission to send"},
		{Code: "SignatureDoesNotMatch", Kind: provider.Transient, Means: "the access key's secret is wrong"},
		{Code: "InvalidAccessKeyId.*", Kind: provider.Transient, Means: "the access key does not exist or is disabled"},
		{Code: "Forbidden*", Kind: provider.Transient, Means: "the account may not do this"},

		// Aliyun's own, and what lies between.
		// A nonce is never used twice here: something in between repeated the call.
		{Code: "SignatureNonceUsed", Kind: provider.Transient, MayBeReceived: true, Means: "the same call came twice"},
		{Code: "isp.SYSTEM_ERROR", Kind: provider.Transient, MayBeReceived: true, Means: "Aliyun failed"},
		{Code: "isp.GATEWAY_ERROR", Kind: provider.Transient, MayBeReceived: true, Means: "Aliyun could not reach its own sender"},
		{Code: "isp.*", Kind: provider.Transient, MayBeReceived: true, Means: "Aliyun failed"},
		{Code: "InternalError*", Kind: provider.Transient, MayBeReceived: true, Means: "Aliyun failed"},
		{Code: "ServiceUnavailable*", Kind: provider.Transient, Means: "Aliyun takes no calls just now"},

		// Of the number.
		{Code: "isv.MOBILE_NUMBER_ILLEGAL", Kind: provider.Permanent, OfRecipient: true, Means: "not a number that Aliyun sends to"},
		{Code: "isv.CUSTOMER_REFUSED", Kind: provider.Permanent, Suppress: schemas.SuppressOptedOut, Means: "the number's owner refused such messages"},
		// Older pages: a word in a variable is forbidden. So nobody is suppressed.
		{Code: "isv.BLACK_KEY_CONTROL_LIMIT", Kind: provider.Permanent, OfRecipient: true, Means: "the number is on Aliyun's black list, or a variable holds a forbidden word"},
		{Code: "isv.SMS_TEST_NUMBER_LIMIT", Kind: provider.Permanent, OfRecipient: true, Means: "a template for tests reaches only numbers bound in the console"},
		{Code: "isv.DOMESTIC_NUMBER_NOT_SUPPORTED", Kind: provider.Permanent, OfRecipient: true, Means: "the template is for numbers abroad, and this one is of the mainland"},

		// Of the template, the signature or a parameter.
		{Code: "isv.SMS_SIGNATURE_SCENE_ILLEGAL", Kind: provider.Permanent, Means: "signature and template are of different kinds"},
		{Code: "isv.SMS_SIGNATURE_ILLEGAL", Kind: provider.Permanent, Means: "the account has no such approved signature"},
		{Code: "isv.SMS_SIGN_ILLEGAL", Kind: provider.Permanent, Means: "the signature is forbidden"},
		{Code: "isv.SIGN_NAME_ILLEGAL", Kind: provider.Permanent, Means: "the signature is not formed as Aliyun wants it"},
		{Code: "isv.SIGN_STATE_ILLEGAL", Kind: provider.Permanent, Means: "the signature is not in a state to be used"},
		{Code: "isv.SIGNATURE_BLACKLIST", Kind: provider.Permanent, Means: "the signature is forbidden"},
		{Code: "isv.EXTEND_CODE_ERROR", Kind: provider.Permanent, Means: "one extension code for several signatures"},
		{Code: "isv.ONE_CODE_MULTIPLE_SIGN", Kind: provider.Permanent, Means: "the extension code belongs to another signature"},
		{Code: "isv.SMS_TEMPLATE_ILLEGAL", Kind: provider.Permanent, Means: "the account has no such approved template, or the parameters do not fit it"},
		{Code: "isv.TEMPLATE_MISSING_PARAMETERS", Kind: provider.Permanent, Means: "the template has a variable that was not given"},
		{Code: "isv.TEMPLATE_PARAMS_ILLEGAL", Kind: provider.Permanent, Means: "a variable is not of the kind that the template says"},
		{Code: "isv.INVALID_JSON_PARAM", Kind: provider.Permanent, Means: "the parameters are no JSON of texts"},
		{Code: "isv.INVALID_PARAMETERS", Kind: provider.Permanent, Means: "a parameter is malformed"},
		{Code: "isv.PARAM_LENGTH_LIMIT", Kind: provider.Permanent, Means: "a variable is longer than Aliyun allows"},
		{Code: "isv.PARAM_NOT_SUPPORT_URL", Kind: provider.Permanent, Means: "a variable holds an address of the web"},
		{Code: "isv.SMS_CONTENT_ILLEGAL", Kind: provider.Permanent, Means: "the content is forbidden"},
		{Code: "isv.SMS_CONTENT_MISMATCH_TEMPLATE_TYPE", Kind: provider.Permanent, Means: "the content is not of the template's kind"},
		{Code: "isv.UNSUPPORTED_CONTENT", Kind: provider.Permanent, Means: "the content has characters that Aliyun does not send, such as emoji"},
		{Code: "isv.SMS_TEST_SIGN_TEMPLATE_LIMIT", Kind: provider.Permanent, Means: "signature and template for tests go together only"},
		{Code: "isv.SMS_TEST_TEMPLATE_PARAMS_ILLEGAL", Kind: provider.Permanent, Means: "a template for tests takes 4 to 6 digits"},
		{Code: "isv.*", Kind: provider.Permanent, Means: "refused by Aliyun"},
		{Code: "MissingParameter*", Kind: provider.Permanent, Means: "a parameter is missing"},
		{Code: "InvalidParameter*", Kind: provider.Permanent, Means: "a parameter is malformed"},
		{Code: "InvalidVersion*", Kind: provider.Permanent, Means: "no such version of the interface at this address"},
		{Code: "InvalidAction.NotFound", Kind: provider.Permanent, Means: "no such call at this address"},
	},
	Else: provider.Code{Kind: provider.Permanent, Means: "refused with a code that Weir does not know"},
	Receipt: []provider.Code{
		{Code: "DELIVERED", Kind: provider.Accepted, Means: "delivered"},
		{Code: "REQUEST_SUCCESS", Means: "the carrier has said nothing yet"},

		// The number's owner refused; of USER_REJECT Aliyun says to leave it out.
		{Code: "USER_REJECT", Kind: provider.Permanent, Suppress: schemas.SuppressOptedOut, Means: "the number's owner refused such messages, or has no such service"},
		{Code: "isv.CUSTOMER_REFUSED", Kind: provider.Permanent, Suppress: schemas.SuppressOptedOut, Means: "the number's owner refused such messages"},

		// Of the number: some of these also mean a telephone that is switched off.
		{Code: "MOBILE_IN_BLACK", Kind: provider.Permanent, OfRecipient: true, Means: "the number is on the carrier's black list: its owner refused the signature, or a rule of the carrier's"},
		{Code: "MOBILE_NOT_ON_SERVICE", Kind: provider.Permanent, OfRecipient: true, Means: "switched off, out of reach, suspended, or no such number"},
		{Code: "INVALID_NUMBER", Kind: provider.Permanent, OfRecipient: true, Means: "switched off, out of reach, suspended, or no such number"},
		{Code: "MOBILE_ACCOUNT_ABNORMAL", Kind: provider.Permanent, OfRecipient: true, Means: "the number owes money or was ported"},
		{Code: "MOBLLE_TERMINAL_ERROR", Kind: provider.Permanent, OfRecipient: true, Means: "the telephone is full or faulty"}, // sic
		{Code: "MOBILE_SEND_LIMIT", Kind: provider.Permanent, OfRecipient: true, Means: "too many messages to this number in a day or month"},
		{Code: "SP_NOT_BY_INTER_SMS", Kind: provider.Permanent, OfRecipient: true, Means: "the number takes no messages from abroad"},

		// Of the content, the signature or the way.
		{Code: "CONTENT_KEYWORD", Kind: provider.Permanent, Means: "the carrier stopped a word of the content"},
		{Code: "CONTENT_ERROR", Kind: provider.Permanent, Means: "an advertisement does not say how to refuse it"},
		{Code: "PARAMS_ILLEGAL", Kind: provider.Permanent, Means: "signature, content or number is malformed"},
		{Code: "PORT_NOT_REGISTERED", Kind: provider.Permanent, Means: "the signature is not yet registered with the carrier"},
		{Code: "NO_ROUTE", Kind: provider.Permanent, Means: "nobody carries this content"},
		{Code: "IS_CLOSE", Kind: provider.Permanent, Means: "the way was closed while it was sent"},
		{Code: "SP_UNKNOWN_ERROR", Kind: provider.Permanent, Means: "the carrier failed without saying why"},
		{Code: "isv.*", Kind: provider.Permanent, Means: "refused by Aliyun"},
	},
}
