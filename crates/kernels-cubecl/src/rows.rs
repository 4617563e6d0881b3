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

/// What launch shapes are decided by. The defaults are for all; others exist to be measured.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Units of a cube, where rows do not ask for more.
    pub cube_units: usize,
    /// Bytes of a row that a unit takes for its share: enough loads in flight to cover their latency.
    pub share_bytes: usize,
    /// How many shares a unit takes before a row is given to more than one plane, at a barrier's cost.
    pub plane_shares: usize,
    /// Bytes that a unit may hold in registers between passes: most of what a unit of a full
    /// multiprocessor has.
    pub held_bytes: usize,
    /// Units that a multiprocessor keeps busy at a time with a kernel that sums over its rows.
    pub resident_units: usize,
    /// Whether cubes step over the rows even where each could have its own.
    pub resident_always: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            cube_units: 256,
            share_bytes: 64,
            plane_shares: 2,
            held_bytes: 192,
            resident_units: 1024,
            resident_always: false,
        }
    }
}

/// Multiprocessors assumed where the runtime does not say.
const ASSUMED_MULTIPROCESSORS: usize = 128;

/// Units of a cube, and cubes at a time, on a software rasteriser.
const SOFTWARE_UNITS: usize = 64;

/// Columns that a cube of [`sum_parts`] takes: a memory transaction's worth.
const PART_COLUMNS: usize = 32;

/// Units of a cube of [`sum_parts`]: there are few columns, so many units share one.
const PART_CUBE_UNITS: usize = 1024;

/// Rows that a unit sums over, at most, before it starts a new part: a longer sum would lose digits.
const MOST_STEPS: usize = 1024;

/// Vectors that a unit loads at a time of a row that it does not hold, or parts of a column.
const TILE: usize = 8;

/// How units share rows: what a kernel is compiled for.
#[derive_cube_comptime]
pub(crate) struct RowShape {
    /// Units that share a row; a power of two.
    pub(crate) units: usize,
    /// Rows that a cube works on at a time.
    pub(crate) rows: usize,
    /// Vectors that each unit loads at a time: a tile of the row, over all units.
    pub(crate) tile: usize,
    /// Whether one tile is the whole row, held between passes; if not, each pass loads it again.
    pub(crate) held: bool,
    /// Whether the row is whole tiles: no index needs a check.
    pub(crate) exact: bool,
    /// Units that plane operations reach; 1 where planes are not used.
    pub(crate) plane: usize,
    /// Whether each cube meets only one set of rows.
    pub(crate) once: bool,
}

impl RowShape {
    /// Units of a cube.
    pub(crate) fn cube_units(&self) -> usize {
        self.units * self.rows
    }

    /// Vectors of a tile.
    pub(crate) fn tile_vectors(&self) -> usize {
        self.tile * self.units
    }

    /// Whether place `k` of every tile lies in the row, for all units: in a row that is held, only the
    /// last place can be beyond.
    pub(crate) fn full(&self, k: usize) -> bool {
        self.exact || (self.held && k + 1 < self.tile)
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

/// What launch shapes depend on of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowDevice {
    /// Whether units of a cube can meet and exchange values.
    meets: bool,
    /// Units of a cube, at most.
    max_units: usize,
    /// Cubes of a grid's first dimension, at most.
    max_cubes: usize,
    /// Units that plane operations reach; 1 where they cannot be relied on.
    plane: usize,
    /// Multiprocessors, each with cubes of its own.
    multiprocessors: usize,
    /// Vectors that a unit loads at a time, where it does not hold them.
    tile: usize,
}

impl RowDevice {
    /// The device of this client.
    pub(crate) fn of(client: &Client) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let max_cubes = hardware.max_cube_count.0 as usize;
        let max_units = hardware.max_units_per_cube as usize;

        if hardware.num_cpu_cores.is_some() {
            return Self {
                meets: false,
                max_units,
                max_cubes,
                plane: 1,
                multiprocessors: 1,
                tile: 4,
            };
        }
        // A software rasteriser gains nothing from sharing; and what cubecl-spirv 0.11 makes of shared
        // memory where the driver has no explicit layout for it, as older ones have not, is invalid.
        let is_software = properties.identity.physical.is_none();
        if is_software && client.name().contains("spirv") {
            let max_units = max_units.min(SOFTWARE_UNITS);
            let multiprocessors = SOFTWARE_UNITS;
            return Self {
                meets: false,
                max_units,
                max_cubes,
                plane: 1,
                multiprocessors,
                tile: TILE,
            };
        }

        let fixed_plane = hardware.plane_size_min == hardware.plane_size_max;
        let plane = if fixed_plane && properties.features.plane.contains(Plane::Ops) {
            prev_power_of_two(hardware.plane_size_max as usize)
        } else {
            1
        };
        let multiprocessors = match hardware.num_streaming_multiprocessors {
            Some(multiprocessors) => multiprocessors as usize,
            None => ASSUMED_MULTIPROCESSORS,
        };
        let max_units = prev_power_of_two(max_units.min(1024));
        Self {
            meets: true,
            max_units,
            max_cubes,
            plane,
            multiprocessors,
            tile: TILE,
        }
    }
}

impl RowLaunch {
    /// The launch over `count` rows of `vectors` vectors, `vector_bytes` long, where a kernel that holds
    /// its share needs `held_bytes` of registers for each vector of it.
    pub(crate) fn new(
        device: &RowDevice,
        tuning: &Tuning,
        count: usize,
        vectors: usize,
        vector_bytes: usize,
        held_bytes: usize,
        cubes: Cubes,
    ) -> Self {
        let RowDevice {
            max_units,
            max_cubes,
            plane,
            multiprocessors,
            ..
        } = *device;

        if !device.meets {
            // A unit takes a whole row.
            let rows = max_units.min(count);
            let needed = count.div_ceil(rows);
            let cubes = match cubes {
                Cubes::PerRows => needed.min(multiprocessors),
                Cubes::Resident => needed.min(multiprocessors.max(needed.div_ceil(MOST_STEPS))),
            };
            let tile = device.tile.min(vectors);
            let exact = vectors.is_multiple_of(tile);
            let once = cubes == needed;
            let shape = RowShape {
                units: 1,
                rows,
                tile,
                held: false,
                exact,
                plane: 1,
                once,
            };
            return Self { shape, cubes };
        }

        let most_held = tuning.held_bytes / held_bytes;
        let share = (tuning.share_bytes / vector_bytes).min(most_held).max(1);
        let units = if vectors <= (tuning.plane_shares * share).min(most_held) * plane {
            vectors.next_power_of_two().min(plane)
        } else {
            vectors.div_ceil(share).next_power_of_two().max(2 * plane)
        };
        let units = units.min(max_units);
        let whole = vectors.div_ceil(units);
        let held = whole <= most_held;
        let (tile, rows) = if held {
            let rows = tuning.cube_units.min(max_units) / units;
            (whole, rows.clamp(1, count.next_power_of_two()))
        } else {
            // One row a cube: what units do not hold of sums over rows lies in memory, for each cube.
            (device.tile.min(most_held).max(1), 1)
        };

        let needed = count.div_ceil(rows);
        let cubes = if cubes == Cubes::PerRows && !tuning.resident_always {
            needed.min(max_cubes)
        } else {
            let resident = multiprocessors * (tuning.resident_units / (units * rows)).max(1);
            let resident = resident.max(needed.div_ceil(MOST_STEPS));
            // Even shares: no cube takes a round more than the others.
            needed.div_ceil(needed.div_ceil(resident.min(max_cubes)))
        };
        let exact = vectors.is_multiple_of(tile * units);
        let shape = RowShape {
            units,
            rows,
            tile,
            held,
            exact,
            plane,
            once: cubes == needed,
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

/// The row, or the last one for units past it. Where a cube takes one row there are none.
#[cube]
pub(crate) fn last_repeated(row: usize, count: usize, #[comptime] shape: RowShape) -> usize {
    if comptime!(shape.rows > 1) {
        min(row, count - 1)
    } else {
        row
    }
}

/// Tiles of a row.
#[cube]
pub(crate) fn row_tiles(vectors: usize, #[comptime] shape: RowShape) -> usize {
    if comptime!(shape.held) {
        1usize.runtime()
    } else {
        vectors.div_ceil(shape.tile_vectors())
    }
}

/// Where in its row place `k` of a tile lies, for the unit whose place 0 is `first`; past the row's end,
/// the row's last vector, so that loads need no branch.
#[cube]
pub(crate) fn tile_index(
    first: usize,
    vectors: usize,
    #[comptime] k: usize,
    #[comptime] shape: RowShape,
) -> usize {
    let index = first + comptime!(k * shape.units);
    if comptime!(shape.full(k)) {
        index
    } else {
        min(index, vectors - 1)
    }
}

/// Whether place `k` of the tile lies in the row. Where [`RowShape::full`] knows, that spares the
/// question.
#[cube]
pub(crate) fn in_row(
    first: usize,
    vectors: usize,
    #[comptime] k: usize,
    #[comptime] shape: RowShape,
) -> bool {
    first + comptime!(k * shape.units) < vectors
}

/// Loads the unit's vectors of a tile of the row that starts at `start`, one right after the other, so
/// that all are under way at once.
#[cube]
pub(crate) fn load_tile<F: Float, N: Size>(
    from: &[Vector<F, N>],
    start: usize,
    first: usize,
    vectors: usize,
    tile: &mut Array<Vector<F, N>>,
    #[comptime] shape: RowShape,
) {
    #[unroll]
    for k in 0..shape.tile {
        tile[k] = from[start + tile_index(first, vectors, k, shape)];
    }
}

/// The sum of `value` over the units that share a row, given to each of them.
///
/// Every unit of the cube must call this together, and count its calls in `turn`: odd and even ones use
/// different memory, so that none has to wait until the others have read what the last one left.
#[cube]
pub(crate) fn row_sum<A: Float>(value: A, turn: usize, #[comptime] shape: RowShape) -> A {
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
        let slots = comptime!(shape.cube_units() / in_plane);
        let turns = comptime!(if shape.once { 1 } else { 2 });
        let mut shared = Shared::<[A]>::new_slice(comptime!(slots * turns));
        let free = turn % turns * slots;
        let first = free + UNIT_POS as usize / shape.units * planes;
        if comptime!(in_plane > 1) {
            if UNIT_POS as usize % in_plane == 0 {
                shared[free + UNIT_POS as usize / in_plane] = sum;
            }
            sync_cube();
            sum = shared[first];
            #[unroll]
            for plane in 1..planes {
                sum += shared[first + plane];
            }
        } else {
            let own = free + UNIT_POS as usize;
            let unit = UNIT_POS as usize % shape.units;
            shared[own] = sum;
            sync_cube();
            let steps = comptime!(planes.ilog2());
            #[unroll]
            for step in 0..steps {
                let reach = comptime!(planes >> (step + 1));
                if unit < reach {
                    let other = shared[own + reach];
                    shared[own] += other;
                }
                sync_cube();
            }
            sum = shared[first];
        }
    }
    sum
}

/// Adds up what units of different rows hold for the same place, in a fixed order, and leaves it to the
/// units of the cube's first row. Every unit of the cube must call this together.
#[cube]
pub(crate) fn sum_rows_of_cube<A: Float, N: Size>(
    sums: &mut Array<Vector<A, N>>,
    #[comptime] shape: RowShape,
) {
    let mut shared = Shared::<[Vector<A, N>]>::new_slice(comptime!(shape.cube_units()));
    #[unroll]
    for k in 0..shape.tile {
        shared[UNIT_POS as usize] = sums[k];
        sync_cube();
        if (UNIT_POS as usize) < shape.units {
            #[unroll]
            for row in 1..shape.rows {
                sums[k] += shared[comptime!(row * shape.units) + UNIT_POS as usize];
            }
        }
        sync_cube();
    }
}

/// Sums the rows of `parts` into `sum`, in a fixed order.
pub(crate) fn sum_parts(parts: &CubeTensor, sum: &CubeTensor) {
    let client = &parts.client;
    let part_count = parts.meta.shape()[0];
    let columns = parts.meta.shape()[1];
    let device = RowDevice::of(client);
    let columns_per_cube = PART_COLUMNS.min(device.max_units);
    let lanes = if device.meets {
        let lanes = PART_CUBE_UNITS.min(device.max_units) / columns_per_cube;
        lanes.min(part_count.next_power_of_two())
    } else {
        1
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

    // As in a tile of a row: loads under way together, and short sums, to keep long ones accurate.
    let mut total = A::new(0.0);
    let mut loaded = Array::<A>::new(TILE);
    let mut part = lane;
    while part < part_count {
        #[unroll]
        for k in 0..TILE {
            loaded[k] = parts[min(part + k * lanes, part_count - 1) * columns + read];
        }
        let mut sum = A::new(0.0);
        #[unroll]
        for k in 0..TILE {
            if part + k * lanes < part_count {
                sum += loaded[k];
            }
        }
        total += sum;
        part += TILE * lanes;
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

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: RowDevice = RowDevice {
        meets: true,
        max_units: 1024,
        max_cubes: 65_535,
        plane: 32,
        multiprocessors: 132,
        tile: 8,
    };
    const NO_PLANES: RowDevice = RowDevice {
        max_units: 256,
        plane: 1,
        ..GPU
    };
    const CPU: RowDevice = RowDevice {
        meets: false,
        max_units: 6,
        multiprocessors: 1,
        tile: 4,
        ..NO_PLANES
    };

    fn launch(device: RowDevice, count: usize, vectors: usize, cubes: Cubes) -> RowLaunch {
        RowLaunch::new(&device, &Tuning::default(), count, vectors, 16, 16, cubes)
    }

    #[test]
    fn every_vector_of_every_row_has_a_unit() {
        for device in [
            GPU,
            NO_PLANES,
            CPU,
            RowDevice {
                multiprocessors: 64,
                ..CPU
            },
        ] {
            for vectors in (1..300).chain([1023, 1024, 1025, 4096, 5000, 40_000, 131_073]) {
                for count in [1, 2, 5, 8, 100, 70_000, 20_000_000] {
                    for cubes in [Cubes::PerRows, Cubes::Resident] {
                        check(
                            device,
                            count,
                            vectors,
                            launch(device, count, vectors, cubes),
                        );
                    }
                }
            }
        }
    }

    fn check(device: RowDevice, count: usize, vectors: usize, launch: RowLaunch) {
        let RowLaunch { shape, cubes } = launch;
        let case = format!("{count} rows of {vectors}: {launch:?}");
        assert!(shape.units.is_power_of_two(), "{case}");
        assert!(
            (1..=device.max_units).contains(&shape.cube_units()),
            "{case}"
        );
        assert!((1..=device.max_cubes).contains(&cubes), "{case}");
        assert!((cubes - 1) * shape.rows < count, "no cube is idle; {case}");
        assert_eq!(shape.once, cubes * shape.rows >= count, "{case}");
        assert!(shape.tile >= 1, "{case}");
        assert_eq!(
            shape.exact,
            vectors.is_multiple_of(shape.tile_vectors()),
            "{case}"
        );
        if shape.held {
            assert!(shape.tile_vectors() >= vectors, "{case}");
            assert!((shape.tile - 1) * shape.units < vectors, "{case}");
        } else if device.meets {
            assert_eq!(shape.rows, 1, "sums in memory belong to one row; {case}");
        }
        // A plane is never split between rows, unless they share it evenly.
        assert!(
            shape.units.is_multiple_of(shape.plane.min(shape.units)),
            "{case}"
        );
    }

    #[test]
    fn rows_are_shared_as_their_length_asks() {
        let shape = |device, count, vectors| {
            let RowShape {
                units,
                rows,
                tile,
                held,
                ..
            } = launch(device, count, vectors, Cubes::PerRows).shape;
            (units, rows, tile, held)
        };
        assert_eq!(shape(GPU, 70_000, 2), (2, 128, 1, true));
        assert_eq!(shape(GPU, 65_536, 256), (32, 8, 8, true));
        assert_eq!(shape(GPU, 16_384, 1024), (256, 1, 4, true));
        assert_eq!(shape(GPU, 4096, 4096), (1024, 1, 4, true));
        assert_eq!(shape(GPU, 4, 131_072), (1024, 1, 8, false));
        assert_eq!(shape(CPU, 100, 4096), (1, 6, 4, false));
    }
}
