/* Runs one kernel of a PTX text, thread after thread.
 *
 * Statements are decoded once into `instruction`s; registers are numbered by name. What is simulated: loads and
 * stores of global memory and parameters, integer and float arithmetic, comparisons, branches, the special
 * registers of a thread's place. A text with anything else does not compile.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"

#define MAX_INSTRUCTIONS 512
#define MAX_REGISTERS 256
#define MAX_LABELS 64
#define MAX_OPERANDS 4
#define MAX_STEPS 1000000

typedef enum {
    LOAD_PARAM, LOAD, STORE, MOVE, ADD, SUBTRACT, MULTIPLY, WIDE, MULTIPLY_ADD, WIDE_ADD, COMPARE, SHIFT_LEFT,
    BRANCH, END,
} operation;
typedef enum { U32, S32, U64, S64, F32, F64, PREDICATE } kind;
typedef enum { LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, NOT_EQUAL } comparison;
typedef enum { REGISTER, CONSTANT, SPECIAL, PARAMETER } source;

typedef struct {
    source from;
    uint32_t number; /* register, special register or parameter */
    int64_t value;   /* constant, or offset of an address */
} operand;

typedef struct {
    operation op;
    kind type;
    comparison compare;
    int guard; /* register that must be true (or false, if inverted); -1 without */
    int inverted;
    int target; /* label, then instruction */
    operand operands[MAX_OPERANDS];
} instruction;

typedef struct {
    char name[64];
    int place;
} label;

struct ptx_kernel {
    uint32_t param_count, register_count, label_count, length;
    char params[PTX_MAX_PARAMS][64];
    uint32_t param_sizes[PTX_MAX_PARAMS];
    char registers[MAX_REGISTERS][32];
    label labels[MAX_LABELS];
    instruction code[MAX_INSTRUCTIONS];
};

static const char *const specials[] = {"%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z",
                                       "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z"};

/* --- decoding ------------------------------------------------------------------------------------------------ */

static int find_kind(const char *opcode, kind *type) {
    static const struct { const char *suffix; kind type; } table[] = {
        {".u32", U32}, {".b32", U32}, {".s32", S32}, {".u64", U64}, {".b64", U64},
        {".s64", S64}, {".f32", F32}, {".f64", F64}, {".pred", PREDICATE},
    };
    const char *suffix = strrchr(opcode, '.');
    for (size_t i = 0; suffix && i < sizeof table / sizeof *table; i++)
        if (strcmp(suffix, table[i].suffix) == 0) {
            *type = table[i].type;
            return 0;
        }
    return -1;
}

static uint32_t size_of(kind type) { return type == U64 || type == S64 || type == F64 ? 8 : 4; }

static int register_number(ptx_kernel *kernel, const char *name) {
    for (uint32_t i = 0; i < kernel->register_count; i++)
        if (strcmp(kernel->registers[i], name) == 0) return (int)i;
    if (kernel->register_count == MAX_REGISTERS || strlen(name) >= sizeof kernel->registers[0]) return -1;
    strcpy(kernel->registers[kernel->register_count], name);
    return (int)kernel->register_count++;
}

static int label_number(ptx_kernel *kernel, const char *name) {
    for (uint32_t i = 0; i < kernel->label_count; i++)
        if (strcmp(kernel->labels[i].name, name) == 0) return (int)i;
    if (kernel->label_count == MAX_LABELS || strlen(name) >= sizeof kernel->labels[0].name) return -1;
    kernel->labels[kernel->label_count] = (label){.place = -1};
    strcpy(kernel->labels[kernel->label_count].name, name);
    return (int)kernel->label_count++;
}

static int read_operand(ptx_kernel *kernel, char *text, operand *result) {
    *result = (operand){.from = CONSTANT};
    if (*text == '[') { /* an address: [register+offset] or [parameter] */
        char *end = strchr(text, ']'), *plus = strchr(text, '+');
        if (!end) return -1;
        *end = 0;
        if (plus) {
            *plus = 0;
            result->value = strtoll(plus + 1, NULL, 0);
        }
        text++;
    }
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (strcmp(text, specials[i]) == 0) {
            result->from = SPECIAL;
            result->number = (uint32_t)i;
            return 0;
        }
    for (uint32_t i = 0; i < kernel->param_count; i++)
        if (strcmp(text, kernel->params[i]) == 0) {
            result->from = PARAMETER;
            result->number = i;
            return 0;
        }
    if (*text == '%') {
        int number = register_number(kernel, text);
        result->from = REGISTER;
        result->number = (uint32_t)number;
        return number < 0 ? -1 : 0;
    }
    if (text[0] == '0' && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D')) {
        result->value = (int64_t)strtoull(text + 2, NULL, 16); /* the bits of a float */
        return 0;
    }
    char *end;
    result->value = strtoll(text, &end, 0);
    return *text && !*end ? 0 : -1;
}

static int begins(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

static int find_operation(const char *opcode, instruction *decoded) {
    static const struct { const char *prefix; operation op; } table[] = {
        {"ld.param.", LOAD_PARAM}, {"ld.global.", LOAD}, {"st.global.", STORE}, {"mov.", MOVE},
        {"cvta.to.global.", MOVE}, {"add.", ADD}, {"sub.", SUBTRACT}, {"mul.lo.", MULTIPLY}, {"mul.wide.", WIDE},
        {"mul.f", MULTIPLY}, {"mul.rn.f", MULTIPLY}, {"mad.lo.", MULTIPLY_ADD}, {"mad.wide.", WIDE_ADD},
        {"fma.rn.", MULTIPLY_ADD}, {"setp.", COMPARE}, {"shl.", SHIFT_LEFT}, {"bra", BRANCH}, {"ret", END},
        {"exit", END},
    };
    static const struct { const char *prefix; comparison compare; } comparisons[] = {
        {"setp.lt.", LESS}, {"setp.le.", LESS_EQUAL}, {"setp.gt.", GREATER}, {"setp.ge.", GREATER_EQUAL},
        {"setp.eq.", EQUAL}, {"setp.ne.", NOT_EQUAL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (!begins(opcode, table[i].prefix)) continue;
        decoded->op = table[i].op;
        if (decoded->op == BRANCH || decoded->op == END) return 0;
        if (decoded->op != COMPARE) return find_kind(opcode, &decoded->type);
        for (size_t j = 0; j < sizeof comparisons / sizeof *comparisons; j++)
            if (begins(opcode, comparisons[j].prefix)) {
                decoded->compare = comparisons[j].compare;
                return find_kind(opcode, &decoded->type);
            }
    }
    return -1;
}

/* "@%p1 bra LABEL", "add.f32 %f3, %f1, %f2": words are separated by white space and commas. */
static int read_statement(ptx_kernel *kernel, char *text) {
    static const int operand_counts[] = {
        [LOAD_PARAM] = 2, [LOAD] = 2, [STORE] = 2, [MOVE] = 2, [ADD] = 3, [SUBTRACT] = 3, [MULTIPLY] = 3, [WIDE] = 3,
        [MULTIPLY_ADD] = 4, [WIDE_ADD] = 4, [COMPARE] = 3, [SHIFT_LEFT] = 3, [BRANCH] = 0, [END] = 0,
    };
    char *rest, *word = strtok_r(text, " \t\r\n,", &rest);
    if (!word || *word == '.') return 0; /* empty, or a declaration */
    if (kernel->length == MAX_INSTRUCTIONS) return -1;
    instruction decoded = {.guard = -1};
    if (*word == '@') {
        decoded.inverted = word[1] == '!';
        decoded.guard = register_number(kernel, word + 1 + decoded.inverted);
        word = strtok_r(NULL, " \t\r\n,", &rest);
        if (decoded.guard < 0 || !word) return -1;
    }
    if (find_operation(word, &decoded) != 0) return -1;
    if (decoded.op == BRANCH) {
        word = strtok_r(NULL, " \t\r\n,", &rest);
        if (!word || (decoded.target = label_number(kernel, word)) < 0) return -1;
    }
    for (int i = 0; i < operand_counts[decoded.op]; i++) {
        word = strtok_r(NULL, " \t\r\n,", &rest);
        if (!word || read_operand(kernel, word, &decoded.operands[i]) != 0) return -1;
    }
    if (operand_counts[decoded.op] && decoded.op != STORE && decoded.operands[0].from != REGISTER) return -1;
    kernel->code[kernel->length++] = decoded;
    return 0;
}

static int read_params(ptx_kernel *kernel, char *text) {
    char *rest;
    for (char *part = strtok_r(text, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        char type[16], name[64];
        kind known;
        if (sscanf(part, " .param %15s %63s", type, name) != 2) continue;
        if (kernel->param_count == PTX_MAX_PARAMS || find_kind(type, &known) != 0) return -1;
        kernel->param_sizes[kernel->param_count] = size_of(known);
        strcpy(kernel->params[kernel->param_count++], name);
    }
    return 0;
}

static int read_body(ptx_kernel *kernel, char *text) {
    char *rest;
    for (char *part = strtok_r(text, ";", &rest); part; part = strtok_r(NULL, ";", &rest)) {
        for (char *colon; (colon = strchr(part, ':')); part = colon + 1) { /* labels before the statement */
            char name[64];
            *colon = 0;
            if (sscanf(part, " %63s", name) != 1) return -1;
            int number = label_number(kernel, name);
            if (number < 0) return -1;
            kernel->labels[number].place = (int)kernel->length;
        }
        if (read_statement(kernel, part) != 0) return -1;
    }
    for (uint32_t i = 0; i < kernel->length; i++) {
        if (kernel->code[i].op != BRANCH) continue;
        kernel->code[i].target = kernel->labels[kernel->code[i].target].place;
        if (kernel->code[i].target < 0) return -1;
    }
    return 0;
}

static void blank_comments(char *text) {
    for (char *at; (at = strstr(text, "//"));)
        for (; *at && *at != '\n'; at++) *at = ' ';
}

static char *find_entry(char *text, const char *name) {
    for (char *at = text; (at = strstr(at, ".entry")); at += 6) {
        char found[128];
        if (sscanf(at, ".entry %127[^( \t\r\n]", found) == 1 && strcmp(found, name) == 0) return at;
    }
    return NULL;
}

ptx_kernel *ptx_compile(const char *text, const char *name) {
    char *copy = strdup(text), *entry;
    ptx_kernel *kernel = calloc(1, sizeof *kernel);
    int done = 0;
    if (copy && kernel) {
        blank_comments(copy);
        entry = find_entry(copy, name);
        char *open = entry ? strchr(entry, '(') : NULL, *close = open ? strchr(open, ')') : NULL;
        char *body = close ? strchr(close, '{') : NULL, *end = body ? strchr(body, '}') : NULL;
        if (end) {
            *close = *end = 0;
            done = read_params(kernel, open + 1) == 0 && read_body(kernel, body + 1) == 0;
        }
    }
    free(copy);
    if (done) return kernel;
    free(kernel);
    return NULL;
}

void ptx_free(ptx_kernel *kernel) { free(kernel); }

/* --- running ------------------------------------------------------------------------------------------------- */

typedef struct {
    const ptx_kernel *kernel;
    const ptx_launch *launch;
    uint32_t place[12]; /* in the order of `specials` */
    uint64_t registers[MAX_REGISTERS];
} thread;

static float as_f32(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

static double as_f64(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t bits_of_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t read_value(const thread *self, const operand *from) {
    switch (from->from) {
        case REGISTER: return self->registers[from->number];
        case SPECIAL: return self->place[from->number];
        case PARAMETER: {
            uint64_t value = 0;
            memcpy(&value, self->launch->params[from->number], self->kernel->param_sizes[from->number]);
            return value;
        }
        default: return (uint64_t)from->value;
    }
}

static uint64_t clip(kind type, uint64_t value) {
    if (type == U32) return (uint32_t)value;
    return type == S32 ? (uint64_t)(int64_t)(int32_t)value : value;
}

static uint64_t calculate(operation op, kind type, uint64_t a, uint64_t b) {
    if (type == F32) {
        float x = as_f32(a), y = as_f32(b);
        return bits_of_f32(op == ADD ? x + y : op == SUBTRACT ? x - y : x * y);
    }
    if (type == F64) {
        double x = as_f64(a), y = as_f64(b);
        return bits_of_f64(op == ADD ? x + y : op == SUBTRACT ? x - y : x * y);
    }
    if (op == WIDE) return clip(type, a) * clip(type, b);
    if (op == SHIFT_LEFT) return clip(type, b < 64 ? a << b : 0);
    return clip(type, op == ADD ? a + b : op == SUBTRACT ? a - b : a * b);
}

static int compare(kind type, comparison how, uint64_t a, uint64_t b) {
    int order, equal;
    if (type == F32 || type == F64) {
        double x = type == F32 ? (double)as_f32(a) : as_f64(a), y = type == F32 ? (double)as_f32(b) : as_f64(b);
        order = x < y, equal = x == y;
    } else if (type == S32 || type == S64) {
        int64_t x = (int64_t)clip(type, a), y = (int64_t)clip(type, b);
        order = x < y, equal = x == y;
    } else {
        uint64_t x = clip(type, a), y = clip(type, b);
        order = x < y, equal = x == y;
    }
    switch (how) {
        case LESS: return order;
        case LESS_EQUAL: return order || equal;
        case GREATER: return !order && !equal;
        case GREATER_EQUAL: return !order;
        case EQUAL: return equal;
        default: return !equal;
    }
}

static void *place_in_memory(const thread *self, const operand *address, kind type) {
    uint64_t at = read_value(self, address) + (uint64_t)address->value;
    return self->launch->memory(self->launch->context, at, size_of(type));
}

static int step(thread *self, const instruction *now) {
    const operand *from = now->operands;
    uint64_t result = 0;
    void *memory;
    switch (now->op) {
        case LOAD_PARAM:
        case MOVE: result = read_value(self, &from[1]); break;
        case LOAD:
            if (!(memory = place_in_memory(self, &from[1], now->type))) return -1;
            memcpy(&result, memory, size_of(now->type));
            break;
        case STORE:
            if (!(memory = place_in_memory(self, &from[0], now->type))) return -1;
            result = read_value(self, &from[1]);
            memcpy(memory, &result, size_of(now->type));
            return 0;
        case COMPARE:
            result = (uint64_t)compare(now->type, now->compare, read_value(self, &from[1]), read_value(self, &from[2]));
            break;
        case MULTIPLY_ADD:
        case WIDE_ADD:
            result = calculate(now->op == WIDE_ADD ? WIDE : MULTIPLY, now->type, read_value(self, &from[1]),
                               read_value(self, &from[2]));
            result = calculate(ADD, now->op == WIDE_ADD ? S64 : now->type, result, read_value(self, &from[3]));
            break;
        default: result = calculate(now->op, now->type, read_value(self, &from[1]), read_value(self, &from[2]));
    }
    self->registers[from[0].number] = result;
    return 0;
}

static int run_thread(thread *self) {
    const ptx_kernel *kernel = self->kernel;
    memset(self->registers, 0, sizeof self->registers);
    uint32_t at = 0;
    for (int steps = 0; at < kernel->length; steps++) {
        const instruction *now = &kernel->code[at++];
        if (steps == MAX_STEPS) return -1;
        if (now->guard >= 0 && !!self->registers[now->guard] == now->inverted) continue;
        if (now->op == END) return 0;
        if (now->op == BRANCH) at = (uint32_t)now->target;
        else if (step(self, now) != 0) return -1;
    }
    return 0;
}

int ptx_run(const ptx_kernel *kernel, const ptx_launch *launch) {
    thread self = {.kernel = kernel, .launch = launch};
    uint32_t *thread_at = self.place, *block_at = self.place + 6;
    memcpy(self.place + 3, launch->block, sizeof launch->block);
    memcpy(self.place + 9, launch->grid, sizeof launch->grid);
    uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    for (uint64_t i = 0; i < blocks * threads; i++) {
        uint64_t block = i / threads, inside = i % threads;
        block_at[0] = (uint32_t)(block % launch->grid[0]);
        block_at[1] = (uint32_t)(block / launch->grid[0] % launch->grid[1]);
        block_at[2] = (uint32_t)(block / launch->grid[0] / launch->grid[1]);
        thread_at[0] = (uint32_t)(inside % launch->block[0]);
        thread_at[1] = (uint32_t)(inside / launch->block[0] % launch->block[1]);
        thread_at[2] = (uint32_t)(inside / launch->block[0] / launch->block[1]);
        if (run_thread(&self) != 0) return -1;
    }
    return 0;
}
