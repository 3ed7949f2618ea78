/* libcuda.so.1 of the simulator. */
int nvsim_cuda_placeholder;
