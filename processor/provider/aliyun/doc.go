// Package aliyun is the provider of type aliyun-sms: short messages by Aliyun's
// (Alibaba Cloud's) SendSms, version 2017-05-25 of Dysmsapi, and its receipts and
// replies by HTTP.
//
// Aliyun sends templates that it has approved, under a signature that it has
// approved: a message without a template of Aliyun's is not sent. One call is one
// message to one number. There is no SendBatchSms, no SendMessageToGlobe (another
// API, with codes and receipts of its own) and no reading of receipts from a queue:
// docs/provider-aliyun-sms.md says why.
package aliyun
