/* A small interpreter of PTX text: enough to run the kernels that prove a GPU works. */
#ifndef NVSIM_PTX_H
#define NVSIM_PTX_H

#include <stddef.h>
#include <stdint.h>

#define PTX_MAX_PARAMS 16

typedef struct ptx_kernel ptx_kernel;

typedef struct {
    uint32_t grid[3];
    uint32_t block[3];
    void *const *params; /* one pointer per parameter, as cuLaunchKernel gets them */
    /* Where `size` bytes of device memory are, NULL when they are not the context's. */
    void *(*memory)(void *context, uint64_t address, size_t size);
    void *context;
} ptx_launch;

/* The kernel of that name; NULL when the text has none or uses an instruction that is not simulated. */
ptx_kernel *ptx_compile(const char *text, const char *name);
/* 0, or -1 when a thread touched memory that is not the context's or did not end. */
int ptx_run(const ptx_kernel *kernel, const ptx_launch *launch);
void ptx_free(ptx_kernel *kernel);

#endif
