package durable

// sysSyncfs is the number of syncfs(2), which package syscall lacks.
const sysSyncfs = 306
