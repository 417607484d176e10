// ggml's plug-in interface, version 2: the structs, enumerations and functions that the backend in plugin.cpp needs.
// Nothing of ggml is needed to build: Python hands over the functions, from the libggml that llama_cpp opened
// (spectui/kernels/plugin.py). A test compares these declarations with ggml's headers.
#pragma once
#include <stddef.h>
#include <stdint.h>

constexpr int GGML_API_VERSION = 2;

enum ggml_type_id : int {
    TYPE_F32 = 0, TYPE_F16 = 1, TYPE_Q4_0 = 2, TYPE_Q4_1 = 3, TYPE_Q5_0 = 6, TYPE_Q5_1 = 7, TYPE_Q8_0 = 8, TYPE_Q2_K = 10,
    TYPE_Q3_K = 11, TYPE_Q4_K = 12, TYPE_Q5_K = 13, TYPE_Q6_K = 14, TYPE_IQ4_NL = 20, TYPE_IQ4_XS = 23, TYPE_I32 = 26,
    TYPE_I64 = 27, TYPE_BF16 = 30,
};

enum ggml_op_id : int {
    OP_NONE = 0, OP_ADD = 2, OP_MUL = 7, OP_RMS_NORM = 25, OP_MUL_MAT = 29, OP_MUL_MAT_ID = 30, OP_SCALE = 32, OP_RESHAPE = 36,
    OP_VIEW = 37, OP_PERMUTE = 38, OP_TRANSPOSE = 39, OP_SET_ROWS = 42, OP_ROPE = 48, OP_FLASH_ATTN_EXT = 74, OP_GLU = 100,
};

enum { GLU_OP_GEGLU = 1, GLU_OP_SWIGLU = 2 };
enum { ROPE_TYPE_NORMAL = 0, ROPE_TYPE_NEOX = 2 };

enum { STATUS_SUCCESS = 0, STATUS_ALLOC_FAILED = -2, STATUS_ABORTED = 1, DEVICE_CPU = 0, DEVICE_ACCEL = 3, TENSOR_FLAG_COMPUTE = 16 };

struct ggml_buffer;
struct ggml_buffer_type;
struct ggml_backend;
struct ggml_device;
struct ggml_registry;
struct ggml_graph;

struct ggml_tensor {
    int            type;
    ggml_buffer *  buffer;
    int64_t        ne[4];          // elements
    size_t         nb[4];          // bytes from one to the next
    int            op;
    int32_t        op_params[16];
    int32_t        flags;
    ggml_tensor *  src[10];
    ggml_tensor *  view_src;
    size_t         view_offs;
    void *         data;
    char           name[64];
    void *         extra;
    char           padding[8];
};

struct ggml_buffer_type {
    const char *  (*get_name)(ggml_buffer_type *);
    ggml_buffer * (*alloc_buffer)(ggml_buffer_type *, size_t size);
    size_t        (*get_alignment)(ggml_buffer_type *);
    size_t        (*get_max_size)(ggml_buffer_type *);
    size_t        (*get_alloc_size)(ggml_buffer_type *, const ggml_tensor *);
    bool          (*is_host)(ggml_buffer_type *);
    ggml_device *  device;
    void *         context;
};

struct ggml_buffer_functions {
    void   (*free_buffer)(ggml_buffer *);
    void * (*get_base)(ggml_buffer *);
    int    (*init_tensor)(ggml_buffer *, ggml_tensor *);
    void   (*memset_tensor)(ggml_buffer *, ggml_tensor *, uint8_t value, size_t offset, size_t size);
    void   (*set_tensor)(ggml_buffer *, ggml_tensor *, const void * data, size_t offset, size_t size);
    void   (*get_tensor)(ggml_buffer *, const ggml_tensor *, void * data, size_t offset, size_t size);
    void   (*set_tensor_2d)(ggml_buffer *, ggml_tensor *, const void *, size_t, size_t, size_t, size_t, size_t);
    void   (*get_tensor_2d)(ggml_buffer *, const ggml_tensor *, void *, size_t, size_t, size_t, size_t, size_t);
    bool   (*cpy_tensor)(ggml_buffer *, const ggml_tensor * src, ggml_tensor * dst);
    void   (*clear)(ggml_buffer *, uint8_t value);
    void   (*reset)(ggml_buffer *);
};

struct ggml_buffer {
    ggml_buffer_functions functions;
    ggml_buffer_type *    type;
    void *                context;
    size_t                size;
    int                   usage;
};

struct ggml_backend_functions {
    const char * (*get_name)(ggml_backend *);
    void         (*free)(ggml_backend *);
    void         (*unused_data_access[5])(void);
    void         (*synchronize)(ggml_backend *);
    void         (*unused_plans[4])(void);
    int          (*graph_compute)(ggml_backend *, ggml_graph *);
    void         (*unused_events[2])(void);
    void         (*graph_optimize)(ggml_backend *, ggml_graph *, void *);
};

struct ggml_backend {
    uint8_t (*              guid)[16];
    ggml_backend_functions  functions;
    ggml_device *           device;
    void *                  context;
};

struct ggml_device_properties {
    const char * name;
    const char * description;
    size_t       memory_free;
    size_t       memory_total;
    int          type;
    const char * id;
    bool         async, host_buffer, buffer_from_host_ptr, events, mmap_support;
};

struct ggml_device {
    const char *       (*get_name)(ggml_device *);
    const char *       (*get_description)(ggml_device *);
    void               (*get_memory)(ggml_device *, size_t * free, size_t * total);
    int                (*get_type)(ggml_device *);
    void               (*get_props)(ggml_device *, ggml_device_properties *);
    ggml_backend *     (*init_backend)(ggml_device *, const char * parameters);
    ggml_buffer_type * (*get_buffer_type)(ggml_device *);
    ggml_buffer_type * (*get_host_buffer_type)(ggml_device *);
    ggml_buffer *      (*buffer_from_host_ptr)(ggml_device *, void *, size_t, size_t);
    bool               (*supports_op)(ggml_device *, const ggml_tensor *);
    bool               (*supports_buft)(ggml_device *, ggml_buffer_type *);
    bool               (*offload_op)(ggml_device *, const ggml_tensor *);
    void               (*unused_events[3])(void);
    ggml_registry *     registry;
    void *              context;
};

struct ggml_registry {
    int            api_version;
    const char *  (*get_name)(ggml_registry *);
    size_t        (*get_device_count)(ggml_registry *);
    ggml_device * (*get_device)(ggml_registry *, size_t index);
    void *        (*get_proc_address)(ggml_registry *, const char * name);
    void *         context;
};

// In the order in which Python hands them over (plugin.py, FUNCTIONS).
struct ggml_functions {
    ggml_buffer *      (*ggml_backend_buffer_init)(ggml_buffer_type *, ggml_buffer_functions, void * context, size_t size);
    bool               (*ggml_backend_buft_is_host)(ggml_buffer_type *);
    ggml_device *      (*ggml_backend_dev_by_type)(int type);
    ggml_buffer_type * (*ggml_backend_dev_buffer_type)(ggml_device *);
    int                (*ggml_graph_n_nodes)(ggml_graph *);
    ggml_tensor *      (*ggml_graph_node)(ggml_graph *, int index);
    void               (*ggml_abort)(const char * file, int line, const char * format, ...);
};
