package schemas

// Revision is a record of weir.config: a whole policy. It counts only if Parent
// is the revision in force where it stands in the log and Revision is Parent+1;
// so of two concurrent edits the first in log order wins and the other is void.
// Revision 0 is the empty policy.
type Revision struct {
	Revision int64  `json:"revision"`
	Parent   int64  `json:"parent"`
	At       Millis `json:"at"`
	By       string `json:"by,omitempty"`
	Policy   Policy `json:"policy"`
}
