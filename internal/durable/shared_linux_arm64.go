package durable

import "syscall"

const sysSyncfs = syscall.SYS_SYNCFS
