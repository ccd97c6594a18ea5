// Package webhook implements Standard Webhooks 1.0 with events of CloudEvents 1.0: it makes, signs, sends and verifies
// notifications.
//
// A notification is a POST with an event in JSON (structured mode) and three headers. webhook-id identifies the event
// and is the same in every attempt; it is the id of the event, too. webhook-timestamp is the time of the attempt in
// seconds since 1970. webhook-signature has one signature for each valid secret, separated by blanks:
//
//	v1,base64(HMAC-SHA256(key, id "." timestamp "." body))
//
// A secret is the text "whsec_" and the base64 of its key. During a rotation both secrets sign, so that receivers may
// switch at any time. A receiver in Go needs only [ParseSecret] and [Verify]:
//
//	id, err := webhook.Verify(r.Header, body, time.Now(), secret)
//
// Notifications are delivered at least once and in no particular order: a receiver records the ids that it has
// processed.
//
// Source: the Standard Webhooks specification, version 1.0.0, sections "Webhook Metadata", "Signature scheme" and
// "Considerations when sending"; CloudEvents 1.0.2 with its JSON event format and its HTTP protocol binding, section
// "Structured Content Mode".
package webhook
