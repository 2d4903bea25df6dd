package legacy

// Queue is what the older system says of its one queue of messages. It is the whole
// answer, without an envelope, as the manual has it.
type Queue struct {
	Length int64  `json:"queueLength"`
	Status string `json:"status"`
}

// The states of its queue. It warned above 800 messages, of a capacity of 1000.
const (
	QueueNormal  = "正常"
	QueueWarning = "警告"
	queueWarns   = 800
)

// QueueOf judges a number of waiting messages as the older system does.
func QueueOf(n int64) Queue {
	if n > queueWarns {
		return Queue{n, QueueWarning}
	}
	return Queue{n, QueueNormal}
}
