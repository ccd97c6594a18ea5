// Package systemd notifies the service manager that started the program: ready, reloading, stopping, and signs of life
// for its watchdog (sd_notify(3)). Without a service manager all of it does nothing.
package systemd
