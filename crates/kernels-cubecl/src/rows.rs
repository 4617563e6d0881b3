//! What reductions over rows share: how units share rows ([`RowShape`], decided here alone), how they
//! find a row of a strided tensor ([`RowLayout`]), and how they add up what each has summed ([`row_sum`]).
//!
//! A row is the last dimension of a tensor, read in vectors. Units, a power of two, share a row: unit
//! `u` takes the vectors `u`, `u + units`, `u + 2·units`, …, so that neighbours read neighbouring memory.
//! Short rows are shared by a plane or less, several rows to a cube, and never meet at a barrier; long
//! ones by a whole cube. Where a unit's vectors fit in its registers it *holds* them between passes, and
//! memory is read once. Cubes step over the rows, so any number of rows fits any grid.
//!
//! On CubeCL's CPU runtime a unit is a thread's task, and a barrier would make the threads of a cube wait
//! on each other: one unit takes a whole row there, and a cube has a unit per core.

use burn_backend::cubecl::dtype_to_storage_type;
use burn_cubecl::tensor::CubeTensor;
use cubecl::features::Plane;
use cubecl::prelude::*;

/// Units of a cube that shares one row or several, where the row does not ask for more.
const CUBE_UNITS: usize = 256;

/// Bytes of a row that a unit takes for its share: enough loads in flight to cover their latency.
const SHARE_BYTES: usize = 64;

/// Bytes that a unit may hold in registers between passes: half of what a unit has in a full cube.
const HELD_BYTES: usize = 192;

/// Units that a multiprocessor keeps busy at a time with a kernel that holds much.
const RESIDENT_UNITS: usize = 1024;

/// Multiprocessors assumed where the runtime does not say.
const ASSUMED_MULTIPROCESSORS: usize = 128;

/// Columns that a cube of [`sum_parts`] takes: a memory transaction's worth.
const PART_COLUMNS: usize = 32;

/// Vectors that a unit adds up before it starts a new sum, to keep long sums accurate.
pub(crate) const SUM_BLOCK: usize = 64;

/// How units share rows: what a kernel is compiled for.
#[derive_cube_comptime]
pub(crate) struct RowShape {
    /// Units that share a row; a power of two.
    pub(crate) units: usize,
    /// Rows that a cube works on at a time.
    pub(crate) rows: usize,
    /// Vectors of a row that each unit holds, all of its share; 0 if it reads them again instead.
    pub(crate) held: usize,
    /// Whether the shares of all units are full: no index needs a check.
    pub(crate) exact: bool,
    /// Units that plane operations reach; 1 where planes are not used.
    pub(crate) plane: usize,
}

impl RowShape {
    /// Units of a cube.
    pub(crate) fn cube_units(&self) -> usize {
        self.units * self.rows
    }
}

/// A launch over the rows of a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLaunch {
    /// What the kernel is compiled for.
    pub(crate) shape: RowShape,
    /// Cubes that share the rows.
    pub(crate) cubes: usize,
}

/// How many cubes a launch takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cubes {
    /// As many as give each its rows once.
    PerRows,
    /// As many as the device runs at a time: each cube sums something over its rows and writes it once.
    Resident,
}

impl RowLaunch {
    /// The launch over `count` rows of `vectors` vectors, `vector_bytes` long, where a kernel that holds
    /// its share needs `held_bytes` of registers for each vector of it.
    pub(crate) fn new(
        client: &Client,
        count: usize,
        vectors: usize,
        vector_bytes: usize,
        held_bytes: usize,
        cubes: Cubes,
    ) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let max_cubes = hardware.max_cube_count.0 as usize;

        if hardware.num_cpu_cores.is_some() {
            let rows = (hardware.max_units_per_cube as usize).clamp(1, count.max(1));
            let shape = RowShape {
                units: 1,
                rows,
                held: 0,
                exact: true,
                plane: 1,
            };
            return Self { shape, cubes: 1 };
        }

        let max_units = prev_power_of_two(hardware.max_units_per_cube.min(1024) as usize);
        let fixed_plane = hardware.plane_size_min == hardware.plane_size_max;
        let plane = if fixed_plane && properties.features.plane.contains(Plane::Ops) {
            prev_power_of_two(hardware.plane_size_max as usize)
        } else {
            1
        };

        // A plane alone takes twice the share: that costs less than a barrier.
        let share = (SHARE_BYTES / vector_bytes).max(1);
        let units = if vectors <= 2 * share * plane {
            vectors.next_power_of_two().min(plane)
        } else {
            vectors.div_ceil(share).next_power_of_two().max(2 * plane)
        };
        let units = units.min(max_units);
        let rows = (CUBE_UNITS / units)
            .clamp(1, count.next_power_of_two())
            .min(max_units / units);
        let held = vectors.div_ceil(units);
        let held = if held * held_bytes <= HELD_BYTES {
            held
        } else {
            0
        };
        // Units that read again keep to one row a cube: what they sum over rows lies in memory.
        let rows = if held == 0 { 1 } else { rows };
        let exact = held * units == vectors;
        let shape = RowShape {
            units,
            rows,
            held,
            exact,
            plane,
        };

        let needed = count.div_ceil(rows);
        let cubes = match cubes {
            Cubes::PerRows => needed.min(max_cubes),
            Cubes::Resident => {
                let multiprocessors = hardware
                    .num_streaming_multiprocessors
                    .map_or(ASSUMED_MULTIPROCESSORS, |count| count as usize);
                let resident = multiprocessors * (RESIDENT_UNITS / shape.cube_units()).max(1);
                // Even shares: no cube takes a round more than the others.
                needed.div_ceil(needed.div_ceil(resident.min(max_cubes)))
            }
        };
        Self { shape, cubes }
    }

    /// The grid.
    pub(crate) fn cube_count(&self) -> CubeCount {
        CubeCount::new_1d(self.cubes as u32)
    }

    /// The cube.
    pub(crate) fn cube_dim(&self) -> CubeDim {
        CubeDim::new_1d(self.shape.cube_units() as u32)
    }
}

fn prev_power_of_two(value: usize) -> usize {
    1 << value.max(1).ilog2()
}

/// The widest vector, in elements, that all of these tensors' rows can be read in: their last dimension
/// lies together, and neither a row's start nor its end cuts a vector.
pub(crate) fn vector_size(client: &Client, tensors: &[&CubeTensor]) -> usize {
    let fits = |tensor: &CubeTensor, size: usize| {
        let (shape, strides) = (tensor.meta.shape(), tensor.meta.strides());
        let last = shape.num_dims() - 1;
        let offset = tensor.handle.offset_start.unwrap_or(0) as usize / tensor.dtype.size();
        shape[last].is_multiple_of(size)
            && offset.is_multiple_of(size)
            && (0..last).all(|dim| shape[dim] == 1 || strides[dim].is_multiple_of(size))
    };
    let size = tensors[0].dtype.size();
    client
        .io_optimized_vector_sizes(size)
        .filter(|size| tensors.iter().all(|tensor| fits(tensor, *size)))
        .max()
        .unwrap_or(1)
}

/// Where the rows of a strided tensor start, in vectors.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct RowLayout {
    lengths: Sequence<usize>,
    strides: Sequence<usize>,
}

/// The layout of this tensor's rows in vectors of `vector_size`; dimensions that can be walked as one
/// are one, so that a contiguous tensor costs one multiplication.
pub(crate) fn row_layout(tensor: &CubeTensor, vector_size: usize) -> RowLayoutLaunch {
    let (shape, strides) = (tensor.meta.shape(), tensor.meta.strides());
    let mut outer: Vec<(usize, usize)> = Vec::new();
    for dim in 0..shape.num_dims() - 1 {
        let (length, stride) = (shape[dim], strides[dim] / vector_size);
        match outer.last_mut() {
            _ if length == 1 => {}
            Some(before) if before.1 == stride * length => *before = (before.0 * length, stride),
            _ => outer.push((length, stride)),
        }
    }
    RowLayoutLaunch::new(
        outer.iter().map(|(length, _)| *length).collect(),
        outer.iter().map(|(_, stride)| *stride).collect(),
    )
}

#[cube]
impl RowLayout {
    /// Where a row starts.
    pub(crate) fn start(&self, row: usize) -> usize {
        let rank = comptime!(self.strides.len());
        let mut start = 0usize;
        let mut rest = row;
        #[unroll]
        for index in 0..rank {
            let dim = comptime!(rank - index - 1);
            if comptime!(dim > 0) {
                start += rest % self.lengths[dim] * self.strides[dim];
                rest /= self.lengths[dim];
            } else {
                start += rest * self.strides[dim];
            }
        }
        start
    }
}

/// The vector that a unit holds in place `held`: of its share, or the row's last where the share ends
/// before, so that loads need no branch.
#[cube]
pub(crate) fn held_index(
    unit: usize,
    vectors: usize,
    #[comptime] held: usize,
    #[comptime] shape: RowShape,
) -> usize {
    let index = unit + comptime!(held * shape.units);
    if comptime!(shape.exact || held + 1 < shape.held) {
        index
    } else {
        min(index, vectors - 1)
    }
}

/// Whether the unit's share reaches as far as place `held`.
#[cube]
pub(crate) fn holds(
    unit: usize,
    vectors: usize,
    #[comptime] held: usize,
    #[comptime] shape: RowShape,
) -> bool {
    if comptime!(shape.exact || held + 1 < shape.held) {
        true.runtime()
    } else {
        unit + comptime!(held * shape.units) < vectors
    }
}

/// The sum of `value` over the units that share a row, given to each of them. Every unit of the cube
/// must call this together.
#[cube]
pub(crate) fn row_sum<A: Float>(value: A, #[comptime] shape: RowShape) -> A {
    let in_plane = comptime!(shape.plane.min(shape.units));
    let planes = comptime!(shape.units / in_plane);
    let mut sum = value;

    // Each unit exchanges with the one whose position differs in one bit: all end with the same bits.
    let steps = comptime!(in_plane.ilog2());
    #[unroll]
    for step in 0..steps {
        sum += plane_shuffle_xor(sum, comptime!(1u32 << step));
    }

    if comptime!(planes > 1) {
        let mut shared = Shared::<[A]>::new_slice(comptime!(shape.cube_units() / in_plane));
        let first = UNIT_POS as usize / shape.units * planes;
        if comptime!(in_plane > 1) {
            if UNIT_POS as usize % in_plane == 0 {
                shared[UNIT_POS as usize / in_plane] = sum;
            }
            sync_cube();
            sum = shared[first];
            #[unroll]
            for plane in 1..planes {
                sum += shared[first + plane];
            }
        } else {
            let unit = UNIT_POS as usize % shape.units;
            shared[UNIT_POS as usize] = sum;
            sync_cube();
            let steps = comptime!(planes.ilog2());
            #[unroll]
            for step in 0..steps {
                let reach = comptime!(planes >> (step + 1));
                if unit < reach {
                    let other = shared[first + unit + reach];
                    shared[first + unit] += other;
                }
                sync_cube();
            }
            sum = shared[first];
        }
        sync_cube();
    }
    sum
}

/// Sums the rows of `parts` into `sum`, in a fixed order.
pub(crate) fn sum_parts(parts: &CubeTensor, sum: &CubeTensor) {
    let client = &parts.client;
    let part_count = parts.meta.shape()[0];
    let columns = parts.meta.shape()[1];
    let hardware = &client.properties().hardware;
    let max_units = prev_power_of_two(hardware.max_units_per_cube as usize);
    let (columns_per_cube, lanes) = if hardware.num_cpu_cores.is_some() {
        (max_units, 1)
    } else {
        let columns_per_cube = PART_COLUMNS.min(max_units);
        let lanes = CUBE_UNITS.min(max_units) / columns_per_cube;
        (columns_per_cube, lanes.min(part_count.next_power_of_two()))
    };
    let address_type = AddressType::from_len(part_count * columns + (1 << 16));

    // SAFETY: a unit reads its column of each part and writes its column of the sum; units past the last
    // column read that one and write nothing. The loop ends.
    unsafe {
        sum_parts_kernel::launch_unchecked(
            client,
            spread(client, columns.div_ceil(columns_per_cube)),
            CubeDim::new_1d((columns_per_cube * lanes) as u32),
            address_type,
            parts.clone().into_buffer_arg(),
            sum.clone().into_buffer_arg(),
            part_count,
            columns,
            columns_per_cube,
            lanes,
            [
                dtype_to_storage_type(parts.dtype),
                dtype_to_storage_type(sum.dtype),
            ],
        );
    }
}

/// A grid of at least this many cubes.
fn spread(client: &Client, cubes: usize) -> CubeCount {
    let max = client.properties().hardware.max_cube_count.0 as usize;
    let x = cubes.min(max);
    CubeCount::new_2d(x as u32, cubes.div_ceil(x) as u32)
}

/// A cube takes `columns_per_cube` columns, side by side; `lanes` units share a column.
#[cube(launch_unchecked, address_type = "dynamic")]
fn sum_parts_kernel<A: Float, F: Float>(
    parts: &[A],
    sum: &mut [F],
    part_count: usize,
    columns: usize,
    #[comptime] columns_per_cube: usize,
    #[comptime] lanes: usize,
    #[define(A, F)] _dtypes: [ElemType; 2],
) {
    let column_in_cube = UNIT_POS as usize % columns_per_cube;
    let lane = UNIT_POS as usize / columns_per_cube;
    let column = CUBE_POS * columns_per_cube + column_in_cube;
    let read = min(column, columns - 1);

    let mut total = A::new(0.0);
    let mut part = lane;
    while part < part_count {
        total += parts[part * columns + read];
        part += lanes;
    }

    if comptime!(lanes > 1) {
        let mut shared = Shared::<[A]>::new_slice(comptime!(columns_per_cube * lanes));
        shared[UNIT_POS as usize] = total;
        sync_cube();
        if lane == 0 {
            #[unroll]
            for other in 1..lanes {
                total += shared[other * columns_per_cube + column_in_cube];
            }
        }
    }
    if lane == 0 && column < columns {
        sum[column] = F::cast_from(total);
    }
}
