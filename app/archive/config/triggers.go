package archiveconfig

import (
	"maps"
	"slices"
	"strconv"

	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/app/archive/trigger"
)

// checkSchedule notes what would fail each run of a schedule.
func (c *Config) checkSchedule(name string, s *trigger.Schedule) {
	key := func(field string) []string { return []string{"schedules", name, field} }
	for _, m := range s.Check() {
		c.wrong(key(m.Field), "%v", m.Err)
	}
	c.usable(key, s.Source, s.Preset, s.Categories)
}

// checkReceiver notes what would refuse each event of a receiver.
func (c *Config) checkReceiver(name string, r *trigger.Receiver) {
	key := func(field string) []string { return []string{"receivers", name, field} }
	for _, m := range r.Check() {
		c.wrong(key(m.Field), "%v", m.Err)
	}
	c.usable(key, r.Source, r.Preset, r.Categories)
}

// checkWebhook notes what would keep notifications from being sent.
func (c *Config) checkWebhook(name string, w *notify.Webhook) {
	if err := w.CheckURL(); err != nil {
		c.wrong([]string{"webhooks", name, "url"}, "%v", err)
	}
	for i, event := range w.Events {
		if err := notify.CheckEvent(event); err != nil {
			c.wrong([]string{"webhooks", name, "events", strconv.Itoa(i)}, "%v", err)
		}
	}
}

// usable notes a source or preset that does not exist, and categories of a source that has none.
func (c *Config) usable(key func(field string) []string, source, preset string, categories []string) {
	if _, ok := c.Sources[source]; !ok {
		c.unknown(key("source"), "source", source, slices.Sorted(maps.Keys(c.Sources)))
	} else if len(categories) > 0 && c.Sources[source].Moodle == nil {
		c.wrong(key("categories"), "the source %s has no categories: only a Moodle has", source)
	}
	if _, ok := c.Preset(preset); preset != "" && !ok {
		c.unknown(key("preset"), "preset", preset, slices.Sorted(maps.Keys(c.Presets)))
	}
}
