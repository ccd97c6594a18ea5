package sign

// SetPoint sets what is called before each step that a crash can separate.
func (s *Signer) SetPoint(point func(string) error) { s.point = point }
