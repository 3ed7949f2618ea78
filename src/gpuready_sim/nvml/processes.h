/* Whose contexts are on a GPU, for those who need their sum. */
#ifndef NVSIM_PROCESSES_H
#define NVSIM_PROCESSES_H

#include "session.h"

/* Of the whole GPU, or of the processes in one MIG device's GPU instance. */
uint64_t memory_of_processes(const nvsim_gpu *gpu, const nvsim_compute *partition);
/* NULL when there is no such instance. */
const nvsim_instance *find_instance(const nvsim_gpu *gpu, uint32_t id);

#endif
