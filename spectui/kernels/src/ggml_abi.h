// ggml's plug-in interface, version 2: what the backend in plugin.cpp needs of its structs, enumerations and functions, by ggml's
// own names. Nothing of ggml is needed to build: Python hands over the functions, from the libggml that llama_cpp opened
// (spectui/kernels/plugin.py). A test compares these declarations with ggml's headers.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

constexpr int GGML_BACKEND_API_VERSION = 2;

enum ggml_type : int {
    GGML_TYPE_F32 = 0, GGML_TYPE_F16 = 1, GGML_TYPE_Q4_0 = 2, GGML_TYPE_Q4_1 = 3, GGML_TYPE_Q5_0 = 6, GGML_TYPE_Q5_1 = 7,
    GGML_TYPE_Q8_0 = 8, GGML_TYPE_Q2_K = 10, GGML_TYPE_Q3_K = 11, GGML_TYPE_Q4_K = 12, GGML_TYPE_Q5_K = 13, GGML_TYPE_Q6_K = 14,
    GGML_TYPE_IQ4_NL = 20, GGML_TYPE_IQ4_XS = 23, GGML_TYPE_I32 = 26, GGML_TYPE_I64 = 27, GGML_TYPE_BF16 = 30,
};

enum ggml_op : int {
    GGML_OP_NONE = 0, GGML_OP_ADD = 2, GGML_OP_MUL = 7, GGML_OP_RMS_NORM = 25, GGML_OP_MUL_MAT = 29, GGML_OP_MUL_MAT_ID = 30,
    GGML_OP_SCALE = 32, GGML_OP_RESHAPE = 36, GGML_OP_VIEW = 37, GGML_OP_PERMUTE = 38, GGML_OP_TRANSPOSE = 39,
    GGML_OP_SET_ROWS = 42, GGML_OP_ROPE = 48, GGML_OP_FLASH_ATTN_EXT = 74, GGML_OP_GLU = 100,
};

enum { GGML_GLU_OP_GEGLU = 1, GGML_GLU_OP_SWIGLU = 2, GGML_ROPE_TYPE_NORMAL = 0, GGML_ROPE_TYPE_NEOX = 2 };
enum { GGML_BACKEND_DEVICE_TYPE_CPU = 0, GGML_BACKEND_DEVICE_TYPE_ACCEL = 3, GGML_TENSOR_FLAG_COMPUTE = 16 };
enum ggml_status : int { GGML_STATUS_ALLOC_FAILED = -2, GGML_STATUS_SUCCESS = 0, GGML_STATUS_ABORTED = 1 };

typedef struct ggml_backend_buffer_type * ggml_backend_buffer_type_t;
typedef struct ggml_backend_buffer * ggml_backend_buffer_t;
typedef struct ggml_backend * ggml_backend_t;
typedef struct ggml_backend_device * ggml_backend_dev_t;
typedef struct ggml_backend_reg * ggml_backend_reg_t;
struct ggml_cgraph;

struct ggml_tensor {
    int            type;
    ggml_backend_buffer_t buffer;
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

namespace {   // of a tensor: where a row begins, a parameter that is a float, and whether rows are floats without gaps

inline char * row_at(const ggml_tensor * t, int64_t i1, int64_t i2, int64_t i3) {
    return (char *) t->data + i1*t->nb[1] + i2*t->nb[2] + i3*t->nb[3];
}
inline float parameter(const ggml_tensor * op, int i) { float v; memcpy(&v, op->op_params + i, 4); return v; }
inline bool has_floats(const ggml_tensor * t) { return t->type == GGML_TYPE_F32 && t->nb[0] == 4; }
inline int64_t count(const ggml_tensor * t) { return t->ne[0]*t->ne[1]*t->ne[2]*t->ne[3]; }

} // namespace

struct ggml_backend_buffer_type_i {
    const char *          (*get_name)(ggml_backend_buffer_type_t);
    ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t, size_t size);
    size_t                (*get_alignment)(ggml_backend_buffer_type_t);
    size_t                (*get_max_size)(ggml_backend_buffer_type_t);
    size_t                (*get_alloc_size)(ggml_backend_buffer_type_t, const ggml_tensor *);
    bool                  (*is_host)(ggml_backend_buffer_type_t);
};
struct ggml_backend_buffer_type {
    ggml_backend_buffer_type_i iface;
    ggml_backend_dev_t         device;
    void *                     context;
};

struct ggml_backend_buffer_i {
    void        (*free_buffer)(ggml_backend_buffer_t);
    void *      (*get_base)(ggml_backend_buffer_t);
    ggml_status (*init_tensor)(ggml_backend_buffer_t, ggml_tensor *);
    void        (*unused_memset)();
    void        (*set_tensor)(ggml_backend_buffer_t, ggml_tensor *, const void * data, size_t offset, size_t size);
    void        (*unused_access[6])();
};
struct ggml_backend_buffer {
    ggml_backend_buffer_i      iface;
    ggml_backend_buffer_type_t buft;
    void *                     context;
    size_t                     size;
    int                        usage;
};

struct ggml_backend_i {
    const char * (*get_name)(ggml_backend_t);
    void         (*free)(ggml_backend_t);
    void         (*unused_access_and_plans[10])();
    ggml_status  (*graph_compute)(ggml_backend_t, ggml_cgraph *);
    void         (*unused_events[3])();
};
struct ggml_backend {
    uint8_t (*         guid)[16];
    ggml_backend_i     iface;
    ggml_backend_dev_t device;
    void *             context;
};

struct ggml_backend_dev_caps { bool async, host_buffer, buffer_from_host_ptr, events, mmap_support; };
struct ggml_backend_dev_props {
    const char *          name;
    const char *          description;
    size_t                memory_free;
    size_t                memory_total;
    int                   type;
    const char *          device_id;
    ggml_backend_dev_caps caps;
};

struct ggml_backend_device_i {
    const char *               (*get_name)(ggml_backend_dev_t);
    const char *               (*get_description)(ggml_backend_dev_t);
    void                       (*get_memory)(ggml_backend_dev_t, size_t * free, size_t * total);
    int                        (*get_type)(ggml_backend_dev_t);
    void                       (*get_props)(ggml_backend_dev_t, ggml_backend_dev_props *);
    ggml_backend_t             (*init_backend)(ggml_backend_dev_t, const char * parameters);
    ggml_backend_buffer_type_t (*get_buffer_type)(ggml_backend_dev_t);
    ggml_backend_buffer_type_t (*get_host_buffer_type)(ggml_backend_dev_t);
    ggml_backend_buffer_t      (*buffer_from_host_ptr)(ggml_backend_dev_t, void *, size_t, size_t);
    bool                       (*supports_op)(ggml_backend_dev_t, const ggml_tensor *);
    bool                       (*supports_buft)(ggml_backend_dev_t, ggml_backend_buffer_type_t);
    void                       (*unused_events[4])();
};
struct ggml_backend_device {
    ggml_backend_device_i iface;
    ggml_backend_reg_t    reg;
    void *                context;
};

struct ggml_backend_reg_i {
    const char *       (*get_name)(ggml_backend_reg_t);
    size_t             (*get_device_count)(ggml_backend_reg_t);
    ggml_backend_dev_t (*get_device)(ggml_backend_reg_t, size_t index);
    void *             (*get_proc_address)(ggml_backend_reg_t, const char * name);
};
struct ggml_backend_reg {
    int                api_version;
    ggml_backend_reg_i iface;
    void *             context;
};

// In the order in which Python hands them over (plugin.py, FUNCTIONS).
struct ggml_functions {
    ggml_backend_buffer_t      (*ggml_backend_buffer_init)(ggml_backend_buffer_type_t, ggml_backend_buffer_i, void * context, size_t);
    bool                       (*ggml_backend_buft_is_host)(ggml_backend_buffer_type_t);
    ggml_backend_dev_t         (*ggml_backend_dev_by_type)(int type);
    ggml_backend_buffer_type_t (*ggml_backend_dev_buffer_type)(ggml_backend_dev_t);
    int                        (*ggml_graph_n_nodes)(ggml_cgraph *);
    ggml_tensor *              (*ggml_graph_node)(ggml_cgraph *, int index);
    void                       (*ggml_abort)(const char * file, int line, const char * format, ...);
};
